"""The target `standalone`: hosts with a coordinator and a worker each, and an election in a folder that they share.

Session clusters are on hosts of a network of namespaces, whose wires can be cut; these methods restart what has died,
in place of a service manager. Clusters of a job are two homes, each with an attendant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.clusters.network_hosts import CONTROL, DATA, HERE, Network
from support.clusters.own_hosts import OwnHost, join
from support.clusters.session import frozen, kill
from support.clusters.standbys import StandbyCluster
from support.deployed.deployment import Deployment, Mode
from support.deployed.on_a_host import ATTENDANT
from support.deployed.on_processes import DRAIN, ProcessDeployment
from support.processes.running import wait_until

HOSTS = ("m", "n")
_WORKER_OF = "w-"
"""Before the name of a host: its worker."""


class HostsDeployment(ProcessDeployment[StandbyCluster]):
    """times: settings of its processes, one of those in `support.patience`. network: with `HOSTS`."""

    program_follows_leader = True

    def __init__(self, folder: Path, network: Network, times: Mapping[str, str]) -> None:
        addresses = [network.address(name, each) for name in (HERE, *HOSTS) for each in (DATA, CONTROL)]
        no_proxy = ",".join(addresses)
        environment = {"NO_PROXY": no_proxy, "no_proxy": no_proxy, **DRAIN}
        super().__init__(StandbyCluster(folder, f"file://{folder}/shared", times=times, environment=environment))
        self._network, self._times = network, times
        self._own: list[OwnHost] = []

    def start(self) -> None:
        """A coordinator, and a worker with two slots, on each host."""
        cluster, network = self.cluster, self._network
        for name in HOSTS:
            prefix = network.hosts[name].prefix
            cluster.start_coordinator(name, "--host", network.address(name, CONTROL), prefix=prefix)
        cluster.leader()
        for name in HOSTS:
            place = ("--host", network.address(name))
            cluster.start_worker(f"{_WORKER_OF}{name}", *place, prefix=network.hosts[name].prefix)
        cluster.wait_free(2 * len(HOSTS))

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """The same command on two hosts."""
        self._own = [join(self.cluster, file, mode, *arguments) for _ in HOSTS]
        return self._own[0].printed

    def workers_of(self, mode: Mode) -> int:
        """One on each host."""
        return len(HOSTS)

    def kill_leader(self) -> None:
        """The other one leads, and this one is started again as a standby."""
        term = self.cluster.term()
        kill(self.cluster.leader())
        self.cluster.wait_later_term(term)
        self._restart()

    def kill_all(self) -> None:
        """But for what starts them again."""
        term = self.cluster.term()
        kill(*(pid for pid, command in self.cluster.processes().items() if ATTENDANT not in command))
        self._restart()
        self.cluster.wait_later_term(term)

    @contextmanager
    def leader_frozen(self, job: str) -> Iterator[None]:
        """Until the standby leads; for longer if the caller likes."""
        term = self.cluster.term()
        with frozen(self.cluster.leader()):
            self.cluster.wait_later_term(term)
            yield

    @contextmanager
    def worker_cut_off(self, job: str) -> Iterator[None]:
        """All wires of the host that does not have the leader. Its worker counts as lost, and its slots have ended."""
        (host,) = set(HOSTS) - {self.cluster.name_of(self.cluster.leader())}
        worker = f"{_WORKER_OF}{host}"
        assert worker in self.cluster.hosts_of(job), "the job has a slot on each host"
        with self._network.unplugged(host, DATA, CONTROL):
            wait_until(lambda: worker not in self.cluster.hosts_of(job), "the job has no slot there any more")
            yield

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """Other homes, with an election of their own."""
        other = HostsDeployment(self._folder_elsewhere(), self._network, self._times)
        try:
            yield other
        finally:
            other.end()

    def _restart(self) -> None:
        if not self._own:
            self.cluster.start()
