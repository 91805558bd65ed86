"""A control plane without nodes, on free ports of loopback: objects, garbage collection, service accounts; no pod runs.

It needs no root, and any number of them run side by side. It starts in 3 s and takes 420 MB. Its servers end with this
process, whatever becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from support.kubernetes.control.access import Access
from support.kubernetes.control.control_plane import API_SERVER, CONTROLLER_MANAGER, ETCD, LOOPBACK, ControlPlane, Ports
from support.kubernetes.control.kubernetes import Credentials, Kubernetes
from support.kubernetes.programs.recipe import CONTROL
from support.kubernetes.programs.requirements import require_binaries
from support.processes.running import wait_until
from support.reserved_port import reserved_port


class ControlCluster(Kubernetes):
    """One of a test's own: its servers may be killed, suspended and started again, by the names of their programs."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.binaries, Credentials.issued(plane.access))
        self.servers = {each.name: each for each in (plane.etcd(), plane.api_server(), plane.controller_manager())}

    def boot(self) -> None:
        """Starts all servers. Returns when the API is served and the namespace `default` takes pods."""
        self.start(ETCD)
        self.start(API_SERVER)
        self._wait_serving()
        # it gives up if the API server takes long
        self.start(CONTROLLER_MANAGER)
        self.wait_ready()

    def start(self, server: str) -> None:
        """Starts a server, also one that was killed; does not wait until it serves."""
        self.servers[server].start()

    def kill(self, server: str) -> None:
        """Kills a server; what etcd has stored stays."""
        self.servers[server].kill()

    def hung(self, server: str) -> AbstractContextManager[None]:
        """The server answers nothing meanwhile, and keeps its connections."""
        return self.servers[server].suspended()

    def wait_ready(self) -> None:
        """Returns when the API is served and the namespace `default` takes pods; fails if a server has ended."""
        self._wait_serving()
        self.wait_service_account("default")

    def _wait_serving(self) -> None:
        def is_served() -> bool:
            for server in (ETCD, API_SERVER):
                self.servers[server].require_alive()
            return self.api.is_ready()

        wait_until(is_served, f"the API is served: see {self.servers[API_SERVER].log}")

    def end(self) -> None:
        """Kills all servers."""
        for server in reversed(self.servers.values()):
            server.kill()
        self.close()


@contextmanager
def control_cluster(folder: Path) -> Iterator[ControlCluster]:
    """A cluster that serves; data, logs and keys are in `folder`. Skips or fails where its programs are missing."""
    binaries = require_binaries(CONTROL)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ports:
        taken = Ports(*(ports.enter_context(reserved_port()) for _ in range(4)))
        access = Access(folder / "access", f"https://{LOOPBACK}:{taken.api_server}")
        cluster = ControlCluster(ControlPlane(binaries, folder, access, taken))
        try:
            cluster.boot()
            yield cluster
        finally:
            cluster.end()


__all__ = ["API_SERVER", "CONTROLLER_MANAGER", "ETCD", "ControlCluster", "control_cluster"]
