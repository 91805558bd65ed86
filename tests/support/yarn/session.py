"""A cluster of headrace whose processes are containers of YARN, as a user has it: started and stopped by the command
line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.client.http import Client
from headrace.client.yarn_clusters import authority_of, token_of
from headrace.core.settings import Home
from headrace.leadership.yarn_locator import SCHEME, YarnAddress, YarnLocator
from support.clusters.remains import WITH_STACKS, wait_nothing_remains
from support.clusters.session import COORDINATOR, Cluster
from support.clusters.worker_process import all_pids, is_running, parent_of
from support.patience import CLUSTER_TIMES
from support.processes.running import wait_until
from support.yarn.cluster import Yarn

WORKER_ROLE = "headrace-worker"


class YarnSession(Cluster):
    """One cluster of a name. Its containers run this Python; its ledger is a folder that all nodes have. times: of its
    processes, one of those in `support.patience`."""

    def __init__(self, yarn: Yarn, folder: Path, name: str, *, times: Mapping[str, str] = CLUSTER_TIMES) -> None:
        super().__init__(folder, times=times)
        self.yarn = yarn
        self.name = name
        self.application = ""
        self.ledger.mkdir()

    @property
    def ledger(self) -> Path:
        """The ledger's folder."""
        return self.folder / "ledger"

    @property
    def staging(self) -> Path:
        """The folder with the staging folders."""
        return self.folder / "staging"

    @property
    def address(self) -> str:
        """By which clients find the cluster."""
        return f"{SCHEME}{self.application or self.name}"

    def environment(self) -> Mapping[str, str]:
        """Clients find YARN by its configuration."""
        return {**super().environment(), **self.yarn.variables, "HEADRACE_COORDINATOR": self.address}

    @property
    def client(self) -> Client:
        """A client that follows the coordinator."""
        if self._client is None:
            locator = YarnLocator(YarnAddress.parsed(self.address), self.environment())
            home = Home(self.home)
            authority = authority_of(home, self.address)
            self._client = Client("", token_of(home, self.address), authority=authority, locator=locator)
        return self._client

    def description(self, workers: int = 4, slots: int = 1, memory: str = "1Gi", **more: Any) -> str:
        """Writes a file that describes it. workers: at most; memory: of each; more: of its fields. Returns its path."""
        document = {
            "ledger": str(self.ledger),
            "staging": self.staging.as_uri(),
            "python": sys.executable,
            "env": {**WITH_STACKS, **self._times},
            "afterEnd": "6s",
            "coordinator": {"memory": "1Gi"},
            "workers": {"slots": slots, "max": workers, "idle": "1s", "memory": memory},
        }
        file = self.folder / "cluster.yaml"
        file.write_text(json.dumps({**document, **more}))  # JSON is YAML
        return str(file)

    def start(self, workers: int = 4, slots: int = 1, memory: str = "1Gi") -> None:
        """Starts a session."""
        self.start_described(self.description(workers, slots, memory))

    def start_described(self, file: str) -> None:
        """Starts what a file describes."""
        arguments = ("--target", "yarn", "--name", self.name, "--config", file)
        done = self.headrace("cluster", "start", *arguments, "--json")
        assert done.code == 0, f"{done.err}\n{self._logs()}"
        self.application = done.json["application"]
        if self._client is not None:
            self._client.close()
            self._client = None

    def submit_alone(self, file: str, mode: str, *arguments: str, **described: Any) -> str:
        """Submits a job or program to an application of its own. described: as of `description`. Returns what the
        command has printed."""
        where = ("--target", "yarn", "--name", self.name, "--config", self.description(**described))
        done = self.headrace("submit", file, "--mode", mode, *where, *arguments)
        assert done.code == 0, done.err
        self.application = done.err.partition(SCHEME)[2].split()[0]
        return done.out.strip()

    def stop(self) -> None:
        """Stops it."""
        done = self.headrace("cluster", "stop", "--target", "yarn", "--name", self.name, "--with-secret")
        assert done.code == 0, done.err
        # YARN shows the end when the ApplicationMaster has unregistered, a moment before its process ends
        wait_nothing_remains(lambda: list(self.processes().values()), self.processes)

    def processes(self, role: str = "headrace") -> dict[int, str]:
        """Processes of its containers whose command line holds `role`: pid -> command line."""
        mark = f"/{self.application}/".encode() if self.application else b"\0"
        found = {}
        for pid in all_pids():
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if not any(each.startswith(b"HEADRACE_HOME=") and mark in each for each in variables):
                    continue
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue  # it has just ended
            if role in command and is_running(pid):
                found[pid] = command
        return {pid: command for pid, command in found.items() if found.get(parent_of(pid)) != command}

    def workers(self) -> list[str]:
        """Ids of the workers that run."""
        return sorted(line.partition("--id ")[2].split()[0] for line in self.processes(WORKER_ROLE).values())

    def kill_coordinator(self) -> None:
        """Ends the ApplicationMaster's process, and waits for that of the next attempt."""
        before = self.coordinator()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: self.coordinators() not in ([], [before]), "the next attempt runs")

    def coordinators(self) -> list[int]:
        """Pids of ApplicationMasters."""
        return list(self.processes(COORDINATOR))

    def kill_worker(self) -> None:
        """Ends the first worker's process."""
        os.kill(min(self.processes(WORKER_ROLE)), signal.SIGKILL)

    def jvm(self) -> int:
        """The pid of the ApplicationMaster's JVM."""
        (pid,) = self.processes("py4j.GatewayServer")
        return pid

    def outcome(self) -> str:
        """The application's final status, once it has ended."""
        ended: list[str] = []

        def has_ended() -> bool:
            found = next(app for app in self.yarn.applications() if app["id"] == self.application)
            ended[:] = [found["finalStatus"]] if found["state"] in {"FINISHED", "FAILED", "KILLED"} else []
            return bool(ended)

        wait_until(has_ended, f"{self.application} has ended")
        return ended[0]

    def container_files(self, name: str) -> list[Path]:
        """Files of this name in the folders of its containers that run."""
        return sorted(self.yarn.folder.glob(f"local-*/usercache/*/appcache/{self.application}/container_*/{name}"))

    def remains(self) -> list[str]:
        """Whatever an application that has ended must not leave behind."""
        found = super().remains()
        staged = list(self.staging.glob("*")) if self.staging.exists() else []
        return [*found, *(f"staging folder {each}" for each in staged)]

    def _logs(self) -> str:
        return "\n".join(self.yarn.logs(app["id"]) for app in self.yarn.applications()[-1:])
