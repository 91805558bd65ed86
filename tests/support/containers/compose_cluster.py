"""The clusters of deploy/standalone in containers: of compose.yaml, and of compose-ha.yaml with its standbys."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from headrace.leadership.elector import Leader, Locator
from headrace.leadership.opening import open_locator
from headrace.processes.ports import free_port
from support.clusters.session import Cluster
from support.containers.compose import Project
from support.containers.machine_image import machine_image
from support.containers.zookeeper_image import zookeeper_image
from support.machine_root import machine_environment, machine_folders
from support.patience import CLUSTER_TIMES, STANDBY_TIMES
from support.processes.running import Running, wait_until
from support.repository import ROOT

FOLDER = ROOT / "deploy/standalone"
TOKEN = "a secret of tests"
WORKERS, SLOTS = ("worker-1", "worker-2"), 4
_SERVERS = ("zk1", "zk2", "zk3")
_INSIDE = "/tmp/pipelines"
"""Where a container has the files of its cluster's folder, which may lie in /dev/shm: there a container has its own."""
_MOUNTED = {"volumes": [f"{path}:{path}:ro" for path in machine_folders()], "environment": dict(machine_environment())}
"""What a service needs of this machine whose image is `machine_image`, or is built on it."""


class ComposeCluster(Cluster):
    """That of compose.yaml. Clients are on this machine.

    image  of coordinator and workers; None: one without programs, in which this machine's are mounted
    """

    file = "compose.yaml"
    coordinators: Sequence[str] = ("coordinator",)

    def __init__(self, folder: Path, image: str | None, times: Mapping[str, str] = CLUSTER_TIMES) -> None:
        super().__init__(folder, times=times)
        shutil.copy(FOLDER / self.file, folder)
        token = folder / "token"
        token.write_text(TOKEN)
        # the container's user may read it
        token.chmod(0o644)
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        variables = {"HEADRACE_IMAGE": image or machine_image(), "HEADRACE_PORT": str(port), **self.further_variables()}
        mounted: Mapping[str, Any] = _MOUNTED if image is None else {"environment": {}}
        own = {**mounted, "environment": {**mounted["environment"], **times}}
        services = dict.fromkeys((*self.coordinators, *WORKERS), own)
        self.project = Project(folder, self.file, variables, {**services, **self.further_services()})

    def further_variables(self) -> Mapping[str, str]:
        """Variables of the file, beside the image of headrace."""
        return {}

    def further_services(self) -> Mapping[str, Mapping[str, Any]]:
        """What services without headrace need."""
        return {}

    def environment(self) -> Mapping[str, str]:
        """Of commands here, as the page sets it."""
        own = {"HEADRACE_COORDINATOR": self._url, "HEADRACE_TOKEN_FILE": str(self.folder / "token")}
        return {**super().environment(), **own}

    def start(self, workers: int = len(WORKERS), slots: int = SLOTS) -> None:
        """Starts what does not run; returns when all slots are there, and each coordinator is healthy."""
        self.project.run("up", "--detach")
        healthy = dict.fromkeys(self.coordinators, "healthy")
        wait_until(lambda: {name: self.project.health(name) for name in healthy} == healthy, "coordinators are healthy")
        self.wait_whole()

    def wait_whole(self) -> None:
        """Waits until each worker has joined."""
        wait_until(lambda: self._joined() == {*WORKERS}, "all workers have joined")

    def _joined(self) -> set[str]:
        with suppress(HeadraceError):
            return {each.worker for each in self.client.cluster().workers}
        return set()

    def stop(self) -> None:
        """Has each end within the grace of the file, and in order: one that had to be killed has another exit code."""
        self.project.run("stop")
        self._close_client()
        codes = self.project.exit_codes()
        assert {codes[name] for name in (*self.coordinators, *WORKERS)} == {0}, f"{codes}\n{self.project.logs()}"

    def busy_worker(self, job: str) -> str:
        """A worker that runs a part of the job; waits for one."""
        found: list[str] = []

        def runs() -> bool:
            found[:] = sorted(self.hosts_of(job))
            return bool(found)

        wait_until(runs, f"a worker runs job {job}")
        return found[0]

    @property
    def client(self) -> Client:
        """A client on this machine."""
        if self._client is None:
            self._client = self.opened_client()
        return self._client

    def opened_client(self) -> Client:
        """A new one."""
        return Client(self._url, TOKEN)

    def end(self) -> None:
        """Removes all of it, whatever happened."""
        (self.folder / "containers.log").write_text(self.project.logs())
        try:
            self._close_client()
        finally:
            self.project.close()

    def _close_client(self) -> None:
        # containers that start again may have other addresses
        if self._client is not None:
            self._client.close()
            self._client = None


class StandbyComposeCluster(ComposeCluster):
    """That of compose-ha.yaml. Commands run in a worker's container, for the leader is known by its name there."""

    file = "compose-ha.yaml"
    coordinators = ("coordinator-1", "coordinator-2", "coordinator-3")
    _client_place = WORKERS[0]

    def __init__(self, folder: Path, image: str | None) -> None:
        super().__init__(folder, image, STANDBY_TIMES)

    def further_variables(self) -> Mapping[str, str]:
        """The image of ZooKeeper."""
        return {"ZOOKEEPER_IMAGE": zookeeper_image()}

    def further_services(self) -> Mapping[str, Mapping[str, Any]]:
        """ZooKeeper's programs are this machine's."""
        return {name: {"volumes": _MOUNTED["volumes"]} for name in _SERVERS}

    def begin(self, *arguments: str) -> Running:
        """Starts `headrace ARGUMENTS` in a worker's container, which has the files of the folder, too."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            for path in (*self.folder.glob("*.yaml"), *self.folder.glob("*.py")):
                tar.add(path, f"{_INSIDE}/{path.name}")
        self.project.put(self._client_place, content.getvalue())
        there = [each.replace(str(self.folder), _INSIDE) for each in arguments]
        return subprocess.Popen(
            self.project.inside(self._client_place, "headrace", *there),
            env=self.project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def leader(self) -> str:
        """The service whose coordinator leads; waits for one."""
        found: list[Leader] = []

        def leads() -> bool:
            leader = locator.find()
            found[:] = [] if leader is None else [leader]
            return bool(found)

        with closing(self._opened_locator()) as locator:
            wait_until(leads, "a coordinator leads")
        return str(urlsplit(found[0].url).hostname)

    def elections(self) -> Sequence[datetime]:
        """Unknown."""
        return ()

    def opened_client(self) -> Client:
        """One that follows the leader, from this machine."""
        return Client("", TOKEN, locator=_ByAddress(self._opened_locator(), self.project))

    def _opened_locator(self) -> Locator:
        servers = ",".join(self.project.address(name) for name in _SERVERS)
        return open_locator(f"zookeeper://{servers}/headrace", dict(STANDBY_TIMES))


class _ByAddress:
    """A locator for this machine, to which services have no names: it returns the address of the leader's container."""

    def __init__(self, locator: Locator, project: Project) -> None:
        self._locator, self._project = locator, project

    def find(self) -> Leader | None:
        """The coordinator that leads; None also where its container does not run."""
        found = self._locator.find()
        url = urlsplit("" if found is None else found.url)
        address = "" if found is None else self._project.address(str(url.hostname))
        return replace(found, url=f"http://{address}:{url.port}") if found and address else None

    def close(self) -> None:
        """Closes the other locator."""
        self._locator.close()


@contextmanager
def compose_cluster(cluster: ComposeCluster) -> Iterator[ComposeCluster]:
    """Inside, it has started; nothing of it stays."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
