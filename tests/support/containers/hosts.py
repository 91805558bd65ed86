"""Headrace hosts in containers: a coordinator on one, a worker on each of the others, to be killed, paused, cut off.

    network `control`   the coordinator (with its REST port on this machine's loopback), a, b
    network `data`      rows between the slots of a and b
    others              what the hosts shall reach besides, such as brokers

Put together by hand as the manual says, like `support.clusters.network_hosts`; each host has a home of its own, and
all see one folder for checkpoints. The command line runs here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.client.http import Client
from headrace.core.errors import HeadraceError
from support.clusters.network_hosts import TOKEN
from support.clusters.session import Cluster
from support.containers.container_network import ContainerNetwork, container_network
from support.containers.engine import require_engine
from support.containers.machine_container import ContainerConfig, MachineContainer
from support.patience import SHORT_CLUSTER_LEASES
from support.processes.running import wait_until

COORDINATOR_HOST = "coordinator"
_REST_PORT, _GRPC_PORT = 8480, 8481


class HostContainers(Cluster):
    """The live half: hosts go by their names, `coordinator`, `a`, `b` and so on."""

    def __init__(
        self, folder: Path, control: ContainerNetwork, data: ContainerNetwork, others: Sequence[ContainerNetwork] = ()
    ) -> None:
        super().__init__(folder)
        self.control, self.data = control, data
        self.checkpoints = folder / "checkpoints"
        self._others = list(others)
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._port = control.free_port()
        self._url = f"http://{control.here}:{self._port}"
        self._client = Client(self._url, TOKEN)
        self._hosts: dict[str, MachineContainer] = {}

    def environment(self) -> Mapping[str, str]:
        """Of commands here."""
        return {**super().environment(), "HEADRACE_COORDINATOR": self._url, "HEADRACE_TOKEN": TOKEN}

    def start(self, workers: int = 2, slots: int = 2) -> None:
        """Starts coordinator and workers, one to a host, and waits until all slots are there."""
        listen = ("--host", "0.0.0.0", "--port", str(_REST_PORT), "--grpc-port", str(_GRPC_PORT))
        self._add(COORDINATOR_HOST, ("coordinator", *listen), [self.control, *self._others], {_REST_PORT: self._port})
        self._hosts[COORDINATOR_HOST].start()
        for name in (chr(ord("a") + number) for number in range(workers)):
            place = ("--coordinator", f"{COORDINATOR_HOST}:{_GRPC_PORT}", "--host", self.data.address(name))
            own = ("--id", name, "--slots", str(slots), *place)
            self._add(name, ("worker", *own), [self.control, self.data, *self._others])
            self._hosts[name].start()
        wait_until(self._answers, "the coordinator listens")
        self.wait_free(workers * slots)

    def stop(self) -> None:
        """SIGTERM, to the workers first; all must end in order."""
        codes = {name: host.stop() for name, host in reversed(self._hosts.items())}
        assert not any(codes.values()), f"{codes}\n{self.logs()}"
        for name in self._hosts:
            # what is left in it is told by `remains`
            with suppress(OSError):
                (self.temporary / name).rmdir()

    def end(self) -> None:
        """Leaves no container, whatever happened."""
        try:
            super().end()
        finally:
            for host in self._hosts.values():
                host.remove()

    # ---- faults --------------------------------------------------------------------------------------------------

    def kill(self, host: str) -> None:
        """SIGKILL for all that runs there; returns when it is gone."""
        self._hosts[host].kill()

    def restart(self, host: str) -> None:
        """After `kill`: the same command, home and addresses."""
        self._hosts[host].start()

    def pause(self, host: str) -> None:
        """All of it stands still."""
        self._hosts[host].pause()

    def unpause(self, host: str) -> None:
        """It goes on."""
        self._hosts[host].unpause()

    def disconnect(self, host: str, network: ContainerNetwork | None = None) -> None:
        """Cuts it off one network, or all."""
        self._hosts[host].disconnect(network)

    def connect(self, host: str, network: ContainerNetwork | None = None) -> None:
        """Heals that."""
        self._hosts[host].connect(network)

    @contextmanager
    def paused(self, host: str) -> Iterator[None]:
        """For a while."""
        self.pause(host)
        try:
            yield
        finally:
            self.unpause(host)

    @contextmanager
    def unplugged(self, host: str, network: ContainerNetwork | None = None) -> Iterator[None]:
        """For a while."""
        self.disconnect(host, network)
        try:
            yield
        finally:
            self.connect(host, network)

    def logs(self) -> str:
        """The last lines of each host."""
        return "\n".join(f"{name}: {host.log()[-2_000:]}" for name, host in self._hosts.items())

    # ---- inside --------------------------------------------------------------------------------------------------

    def _add(
        self,
        name: str,
        arguments: Sequence[str],
        networks: Sequence[ContainerNetwork],
        ports: Mapping[int, int] | None = None,
    ) -> None:
        home, temporary = self.home / name, self.temporary / name
        config = ContainerConfig(
            name=name,
            command=(sys.executable, "-m", "headrace", *arguments, "--token-file", str(self._token_file)),
            networks=networks,
            environment={**SHORT_CLUSTER_LEASES, "HEADRACE_HOME": str(home), "TMPDIR": str(temporary)},
            folders=(home, temporary, self.checkpoints),
            files=(self._token_file,),
            ports=ports or {},
        )
        self._hosts[name] = MachineContainer(config)

    def _answers(self) -> bool:
        assert self._hosts[COORDINATOR_HOST].is_running(), self.logs()
        with suppress(HeadraceError):
            return bool(self.client.cluster())
        return False


@contextmanager
def host_containers(
    folder: Path, *, workers: int = 2, slots: int = 2, others: Sequence[ContainerNetwork] = ()
) -> Iterator[HostContainers]:
    """A cluster that has started; ended at the end, and checked for what it leaves."""
    require_engine()
    with container_network() as control, container_network() as data:
        cluster = HostContainers(folder, control, data, others)
        try:
            cluster.start(workers, slots)
            yield cluster
        finally:
            cluster.end()
