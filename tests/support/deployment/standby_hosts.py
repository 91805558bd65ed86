"""The cluster of the page about high availability: hosts of a network, on which the page's own commands are run.

What a reader would edit is edited: names of hosts, of ZooKeeper and of the bucket become addresses of the test.
Settings that are the test's own (times, credentials) are added to the file of settings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.client.http import Client
from headrace.leadership.opening import open_locator
from support.clusters.network_hosts import CONTROL, Network
from support.clusters.session import Cluster
from support.deployment.page_commands import CLIENT, Command, sections, settings
from support.deployment.service_host import ServiceHost
from support.patience import STANDBY_TIMES, WAIT_SECONDS
from support.processes.running import wait_until
from support.repository import ROOT

FOLDER = ROOT / "deploy/standalone"
PAGE = FOLDER / "high-availability.md"
COORDINATOR = "headrace-coordinator"


class StandbyHosts(Cluster):
    """names: what the page calls things -> what they are here; own: variables beside those of the page."""

    def __init__(
        self, folder: Path, network: Network, names: Mapping[str, str], own: Mapping[str, str] = STANDBY_TIMES
    ) -> None:
        super().__init__(folder, times=STANDBY_TIMES)
        self._network = network
        self._names = names
        self._own = own
        self._exports: list[str] = []
        shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
        shutil.copy(FOLDER / "headrace.env.example", folder / "headrace.env")
        self.versions: Mapping[str, Path | None] = {}
        self.hosts: dict[str, ServiceHost] = {}
        self._election = self._named(settings(PAGE)["HEADRACE_HA"])
        self._locator = open_locator(self._election, dict(STANDBY_TIMES))

    def lose_hosts(self) -> None:
        """All their processes are killed, and their files gone."""
        for host in self.hosts.values():
            host.close()
        self.hosts.clear()

    def add_hosts(self, versions: Mapping[str, Path | None]) -> None:
        """New ones: nothing is on them but these versions, in /opt."""
        self.versions = versions
        taken = len(list(self.folder.glob("h*-*")))
        for name, namespace in self._network.hosts.items():
            host = ServiceHost(name, namespace.prefix, self.folder / f"{name}-{taken}", self.folder)
            self.hosts[name] = host
            for version, packages in versions.items():
                host.install(version, packages)

    # ---- commands of the page ------------------------------------------------------------------------------------

    def run(self, section: str, *, blocks: slice = slice(None)) -> None:
        """Commands of a section, or of some of its blocks."""
        for block in sections(PAGE)[section][blocks]:
            self._run_block(block)

    def _run_block(self, block: Sequence[Command]) -> None:
        """Whole on one host, then on the next; where its commands name no host, once."""
        (where,) = {command.where for command in block} - {CLIENT} or {CLIENT}
        for name in self._places(where):
            for command in block:
                if command.where == CLIENT:
                    self.run_client(command.text)
                else:
                    self._run_on(name, command.text)

    def _places(self, where: str) -> list[str]:
        match where:
            case "each":
                return list(self.hosts)
            case "leader":
                return [self.leading()]
            case "standby":
                leader = self.leading()
                return [name for name in self.hosts if name != leader]
            case _:
                return [where]

    def _run_on(self, name: str, text: str) -> None:
        host = self.hosts[name]
        host.run(self._named(text))
        if "/etc/headrace/headrace.env" in text:
            own = {"HEADRACE_ADVERTISE": self._network.address(name, CONTROL)}
            host.set({**{each: self._named(value) for each, value in settings(PAGE).items()}, **own, **self._own})

    def run_client(self, text: str) -> None:
        """A command where clients are."""
        if text.startswith("export "):
            self._exports.append(self._named(text))
            return
        done = subprocess.run(
            ["bash", "-c", "\n".join(["set -eu", *self._exports, self._named(text)])],
            cwd=self.folder,
            env={**super().environment(), **self._own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"$ {text}\n{done.stdout}{done.stderr}"

    def _named(self, text: str) -> str:
        """A text of the page with what its names are here."""
        for name, real in self._names.items():
            text = text.replace(name, real)
        return text

    # ---- the cluster ---------------------------------------------------------------------------------------------

    def environment(self) -> Mapping[str, str]:
        """Clients find the leader by the election."""
        own = {"HEADRACE_COORDINATOR": self._election, "HEADRACE_TOKEN_FILE": str(self.folder / "token")}
        return {**super().environment(), **self._own, **own}

    @property
    def client(self) -> Client:
        """A client that follows the leader."""
        if self._client is None:
            token = (self.folder / "token").read_text().strip()
            self._client = Client("", token, locator=open_locator(self._election, dict(STANDBY_TIMES)))
        return self._client

    def leading(self) -> str:
        """The host whose coordinator leads; waits for one."""
        found: list[str] = []

        def leads() -> bool:
            leader = self._locator.find()
            places = {self._network.address(name, CONTROL): name for name in self.hosts}
            found[:] = [] if leader is None else [places[leader.url.split("//")[1].split(":")[0]]]
            return bool(found)

        wait_until(leads, "a coordinator leads")
        return found[0]

    def term(self) -> int:
        """The term of the leader; waits for one."""
        wait_until(lambda: self._locator.find() is not None, "a coordinator leads")
        leader = self._locator.find()
        return 0 if leader is None else leader.term

    def workers(self) -> set[str]:
        """Ids of the workers that are there."""
        return {each.worker for each in self.client.cluster().workers}

    def end(self) -> None:
        """Stops workers, then coordinators; nothing of them stays."""
        for name, host in self.hosts.items():
            host.run(f"systemctl stop headrace-worker@{name}")
        for host in self.hosts.values():
            host.run(f"systemctl stop {COORDINATOR}")
        self.lose_hosts()
        self._locator.close()
        if self._client is not None:
            self._client.close()
