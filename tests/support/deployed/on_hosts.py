"""The target `standalone`: hosts with a coordinator and a worker each, and an election in a folder that they share.

Session clusters are on hosts of a network of namespaces, whose wires can be cut; these methods restart what has died,
in place of a service manager. Clusters of a job are two homes, each with an attendant.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.clusters.network_hosts import CONTROL, DATA, HERE, Network
from support.clusters.own_hosts import OwnHost, join
from support.clusters.session import WORKER, frozen, kill, wait_gone
from support.clusters.standbys import StandbyCluster
from support.clusters.worker_process import parent_of
from support.deployed.deployment import Deployment, Mode
from support.deployed.on_a_host import ATTENDANT, DRAIN
from support.processes.running import wait_until

HOSTS = ("m", "n")
_WORKER_OF = "w-"
"""Before the name of a host: its worker."""


class HostsDeployment:
    """times: settings of its processes, one of those in `support.patience`. network: with `HOSTS`."""

    program_follows_leader = True

    def __init__(self, folder: Path, network: Network, times: Mapping[str, str]) -> None:
        self._network, self._times = network, times
        addresses = [network.address(name, each) for name in (HERE, *HOSTS) for each in (DATA, CONTROL)]
        no_proxy = ",".join(addresses)
        environment = {"NO_PROXY": no_proxy, "no_proxy": no_proxy, **DRAIN}
        self.cluster = StandbyCluster(folder, f"file://{folder}/shared", times=times, environment=environment)
        self._own: list[OwnHost] = []
        self._elsewhere = 0

    @property
    def shared(self) -> Path:
        """All hosts mount it."""
        return self.cluster.folder

    @property
    def shared_there(self) -> str:
        """By the same name."""
        return str(self.shared)

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

    def kill_slot(self, job: str) -> None:
        """By its pid."""
        kill(self.cluster.wait_busy_slots(job)[0])

    def kill_worker(self, job: str) -> None:
        """It is started again."""
        kill(self._worker_of(job))
        self._restart()

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

    def drain_worker(self, job: str) -> None:
        """SIGTERM, as a service manager sends it. It is started again once it has left."""
        worker = self._worker_of(job)
        os.kill(worker, signal.SIGTERM)
        wait_gone(worker)
        self._restart()

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
        self._elsewhere += 1
        folder = self.cluster.folder / f"elsewhere-{self._elsewhere}"
        other = HostsDeployment(folder, self._network, self._times)
        try:
            yield other
        finally:
            other.end()

    def has_gone(self) -> bool:
        """Homes stay, with what the job has logged."""
        return not self.cluster.processes()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        self.cluster.end()

    def _restart(self) -> None:
        if not self._own:
            self.cluster.start()

    def _worker_of(self, job: str) -> int:
        worker = parent_of(self.cluster.wait_busy_slots(job)[0])
        assert worker in self.cluster.processes(WORKER)
        return worker
