"""The target `kubernetes`: pods on two nodes. Kubernetes replaces coordinators, coordinators replace workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.clusters.session import COORDINATOR, SLOT, frozen, kill
from support.deployed.deployment import PARALLELISM, Deployment, Mode
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import LEDGER, PodCluster
from support.kubernetes.pods.coordinator_account import make_account
from support.processes.running import wait_until

WORKERS_MAX = 4


class PodsDeployment:
    """namespace: with the account of a coordinator. shared: a folder that the pods see as `/ledger`; ledger: in it."""

    program_follows_leader = True

    def __init__(
        self, nodes: NodeCluster, namespace: str, folder: Path, *, shared: Path | None = None, ledger: str = LEDGER
    ) -> None:
        self._nodes = nodes
        self.cluster = PodCluster(nodes, namespace, folder, shared=shared, ledger=ledger)

    @property
    def shared(self) -> Path:
        """A folder of this machine."""
        return self.cluster.shared

    @property
    def shared_there(self) -> str:
        """As pods mount it."""
        return LEDGER

    def start(self) -> None:
        """Two coordinators; workers come with jobs."""
        self.cluster.start(WORKERS_MAX)

    def submit_alone(self, file: str, mode: Mode, *arguments: str) -> str:
        """With one coordinator for a job, and two for a program."""
        coordinators = 1 if mode is Mode.PER_JOB else 2
        config = self.cluster.write(self.cluster.description(WORKERS_MAX, coordinators=coordinators))
        named = (*self.cluster.named, "--config", config)
        done = self.cluster.headrace("submit", file, "--mode", mode, *named, *arguments)
        assert done.code == 0, done.err
        return done.out.strip()

    def workers_of(self, mode: Mode) -> int:
        """One for each slot."""
        return PARALLELISM

    def kill_slot(self, job: str) -> None:
        """By the pid that it has outside of its pod."""
        found: list[int] = []

        def runs() -> bool:
            found[:] = self.cluster.pod_processes(self._workers_of(job), SLOT)
            return bool(found)

        wait_until(runs, "a slot of the job")
        kill(found[0])

    def kill_worker(self, job: str) -> None:
        """With its pod."""
        self.cluster.kill_pod(self._workers_of(job)[0])

    def kill_leader(self) -> None:
        """With its pod."""
        before = self.cluster.leader()
        self.cluster.kill_pod(before)
        self._wait_leader_after(before)

    def kill_all(self) -> None:
        """With their pods."""
        before = self.cluster.leader()
        for pod in (*self.cluster.workers(), *self.cluster.coordinators()):
            self.cluster.kill_pod(pod)
        self._wait_leader_after(before)

    def drain_worker(self, job: str) -> None:
        """As an eviction does."""
        self.cluster.evict_pod(self._workers_of(job)[0])

    @contextmanager
    def leader_frozen(self, job: str) -> Iterator[None]:
        """Until another one leads: the standby, or the kubelet's next try of the same pod."""
        before, term = self.cluster.leader(), self.cluster.term()
        with frozen(*self.cluster.pod_processes([before], COORDINATOR)):
            wait_until(lambda: self.cluster.term() > term, "another coordinator leads")
            yield

    @contextmanager
    def worker_cut_off(self, job: str) -> Iterator[None]:
        """The node of a worker, away from the leader."""
        leader = self._node_of(self.cluster.leader())
        away, lost = next((node, pod) for pod in self._workers_of(job) if (node := self._node_of(pod)) != leader)
        with self._nodes.cut_off(away):
            wait_until(lambda: lost not in self.cluster.hosts_of(job), "the job has no slot there any more")
            yield
        self._nodes.wait_node(away, ready=True)

    @contextmanager
    def elsewhere(self) -> Iterator[Deployment]:
        """In another namespace."""
        with self._nodes.namespace("elsewhere") as namespace:
            folder = self.cluster.folder / namespace
            make_account(self.cluster.connection, namespace)
            other = PodsDeployment(self._nodes, namespace, folder, shared=self.shared, ledger=f"{LEDGER}/{namespace}")
            try:
                yield other
            finally:
                other.end()

    def has_gone(self) -> bool:
        """Nothing of that name is left."""
        return not self.cluster.remains()

    def end(self) -> None:
        """Stops a session; whatever is left of a cluster is an error."""
        try:
            self.cluster.end()
        finally:
            self.cluster.connection.close()

    def _workers_of(self, job: str) -> Sequence[str]:
        """Pods in which a slot of the job runs; waits for some."""
        found: list[str] = []

        def some() -> bool:
            found[:] = sorted(set(self.cluster.hosts_of(job)) & set(self.cluster.workers()))
            return bool(found)

        wait_until(some, f"pods run job {job}")
        return found

    def _wait_leader_after(self, before: str) -> None:
        wait_until(lambda: self.cluster.leader() not in {"", before}, "another coordinator leads")

    def _node_of(self, pod: str) -> str:
        found = self._nodes.pod(self.cluster.namespace, pod)
        assert found is not None
        return str(found["spec"]["nodeName"])
