"""A cluster of headrace whose processes are pods, as a user has it: started and stopped by the command line."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headrace.client.cluster_secret import tls_secret
from headrace.client.discovery import connect
from headrace.client.http import Client
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, metadata_of, number_at, text_at
from headrace.leadership.lease_record import API, PLURAL, LeaseRecord
from headrace.resources.kubernetes.worker_pod import COORDINATOR, WORKER, selector_of
from support.clusters.session import Cluster
from support.clusters.worker_process import all_pids, is_running
from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.nodes.image_archive import MACHINE_IMAGE
from support.kubernetes.pods.coordinator_account import make_account
from support.kubernetes.pods.machine_pod import machine_container, machine_volumes
from support.patience import CLUSTER_TIMES

NAME = "flights"
LEDGER = "/ledger"


class PodCluster(Cluster):
    """The cluster `flights` in a namespace. Its pods run this machine's Python.

    shared: a folder here that pods see as `/ledger`; ledger: where its ledger is in that folder.
    """

    def __init__(
        self, nodes: NodeCluster, namespace: str, folder: Path, *, shared: Path | None = None, ledger: str = LEDGER
    ) -> None:
        super().__init__(folder)
        self._nodes = nodes
        self.shared = shared or folder / "ledger"
        self.shared.mkdir(exist_ok=True)
        self.shared.chmod(0o777)  # pods run as a user of their own
        self._ledger_there = ledger
        self.namespace = namespace
        self.address = f"kubernetes://{namespace}/{NAME}"
        self.connection: Connection = nodes.connection()
        self._pods = Collection("v1", "pods", namespace)

    def environment(self) -> Mapping[str, str]:
        """Clients find the leader by its Lease."""
        return {**super().environment(), **self._nodes.environment, "HEADRACE_COORDINATOR": self.address}

    @property
    def client(self) -> Client:
        """A client that follows the leader."""
        if self._client is None:
            self._client = connect(self.address)
        return self._client

    def start(self, workers: int = 4, slots: int = 1) -> None:
        """Starts it with two coordinators, and at most so many workers."""
        self.apply(self.description(workers, slots))

    def description(self, workers: int = 4, slots: int = 1, coordinators: int = 2) -> Mapping[str, Any]:
        """What is in its file. workers: at most."""
        return {
            "image": MACHINE_IMAGE,
            "imagePullPolicy": "Never",
            "ledger": self._ledger_there,
            "env": dict(CLUSTER_TIMES),
            "afterEnd": "6s",
            "attendant": {"cpu": "50m"},
            "coordinator": {
                "replicas": coordinators,
                "cpu": "50m",
                "podTemplate": machine_template(self.shared, "coordinator", "attendant", "closer"),
            },
            "workers": {
                "slots": slots,
                "max": workers,
                "idle": "1s",
                "cpu": "50m",
                "memory": "1Gi",
                "podTemplate": machine_template(self.shared, "worker"),
            },
        }

    def write(self, description: Mapping[str, Any]) -> str:
        """The file with a description."""
        file = self.folder / "cluster.yaml"
        file.write_text(json.dumps(description))  # JSON is YAML
        return str(file)

    def apply(self, description: Mapping[str, Any]) -> None:
        """Starts what is described."""
        done = self.headrace("cluster", "start", *self.named, "--config", self.write(description))
        assert done.code == 0, done.err

    def stop(self) -> None:
        """Stops it, with everything of it."""
        done = self.headrace("cluster", "stop", *self.named, "--with-secret")
        assert done.code == 0, done.err

    def workers(self) -> list[str]:
        """Names of the workers' pods that are not being deleted."""
        return self._named_pods(WORKER)

    def coordinators(self) -> list[str]:
        """Names of the coordinators' pods that are not being deleted."""
        return self._named_pods(COORDINATOR)

    def leader(self) -> str:
        """The pod that holds the Lease; empty: it is gone, and no other one has been elected yet."""
        record = self._lease()
        return next((each for each in self.coordinators() if record.holder.startswith(each)), "")

    def term(self) -> int:
        """Of the leader as published; 0: none."""
        leader = self._lease().leader("the Lease")
        return 0 if leader is None else leader.term

    def pod_processes(self, pods: Sequence[str], role: str) -> list[int]:
        """Pids, here, of processes of pods whose command line holds `role`."""
        groups = [f"pod{metadata_of(self.connection.get(self._pods, pod)).uid}" for pod in pods]

        def belongs(pid: int) -> bool:
            try:
                group = Path(f"/proc/{pid}/cgroup").read_text()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                return False  # it has just ended
            return role.encode() in command and any(each in group for each in groups)

        return [pid for pid in all_pids() if belongs(pid) and is_running(pid)]

    def kill_pod(self, name: str) -> None:
        """Deletes a pod without a grace time: its processes are killed."""
        self.connection.delete(self._pods, name, grace_s=0)

    def evict_pod(self, name: str) -> None:
        """Has a pod end in its grace time, as an eviction or the drain of a node does."""
        self.connection.delete(self._pods, name)

    def presented_certificate(self) -> str:
        """The one that the leader's REST API presents, as PEM."""
        leader = self._lease().leader("the Lease")
        assert leader is not None
        address = urlsplit(leader.url)
        return ssl.get_server_certificate((str(address.hostname), int(address.port or 0)))

    def replace_certificate(self) -> None:
        """Deletes the Secret with the certificate, which the next start issues anew by the same authority."""
        secrets = Collection("v1", "secrets", self.namespace)
        self.connection.delete(secrets, tls_secret(NAME))
        self.start()

    def evict(self, name: str) -> bool:
        """Evicts a pod as a drain does. Returns False if a budget does not allow it now."""
        return self._nodes.api.evict(self._pods.path(name))

    def ready_coordinators(self) -> int:
        """How many coordinators pass their probes."""
        deployed = self.connection.get(Collection("apps/v1", "deployments", self.namespace), NAME)
        return number_at(deployed, "status", "readyReplicas") or 0

    def pod_log(self, name: str) -> str:
        """What a pod has printed."""
        with self.connection.logs(self._pods, name) as lines:
            return b"\n".join(lines).decode()

    def phases(self) -> Mapping[str, str | None]:
        """Pod -> phase."""
        return {metadata_of(each).name: text_at(each, "status", "phase") for each in self._listed("")}

    def remains(self) -> list[str]:
        """Whatever a stopped cluster must not leave behind."""
        kinds = {"pods": "v1", "services": "v1", "secrets": "v1", "deployments": "apps/v1", PLURAL: API}
        left = [
            f"{kind} {metadata_of(each).name}"
            for kind, api in kinds.items()
            for each in self.connection.list(Collection(api, kind, self.namespace)).items
        ]
        return [*super().remains(), *left]

    @property
    def named(self) -> tuple[str, ...]:
        """The options that name it."""
        return ("--target", "kubernetes", "--name", NAME, "--namespace", self.namespace)

    def _lease(self) -> LeaseRecord:
        return LeaseRecord.of(self.connection.get(Collection(API, PLURAL, self.namespace), NAME))

    def _named_pods(self, component: str) -> list[str]:
        found = map(metadata_of, self._listed(selector_of(NAME, component)))
        return [each.name for each in found if not each.is_deleted]

    def _listed(self, labels: str) -> tuple[Any, ...]:
        return self.connection.list(self._pods, labels=labels).items


def machine_template(shared: Path, *containers: str) -> Mapping[str, Any]:
    """A pod template that lets containers run this machine's headrace, and write into the shared folder."""
    machine = machine_container(["python", "-m", "headrace"])
    mount = {"name": "ledger", "mountPath": LEDGER}
    own = {"command": machine["command"], "env": machine["env"], "volumeMounts": [*machine["volumeMounts"], mount]}
    return {
        "spec": {
            "containers": [{"name": each, **own} for each in containers],
            "volumes": [*machine_volumes(), {"name": "ledger", "hostPath": {"path": str(shared)}}],
        }
    }


@contextmanager
def pod_cluster(nodes: NodeCluster, folder: Path) -> Iterator[PodCluster]:
    """One with two coordinators and up to four workers, in a namespace of its own; checked for what it leaves."""
    with nodes.namespace("flights") as namespace:
        cluster = PodCluster(nodes, namespace, folder)
        make_account(cluster.connection, namespace)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()
            cluster.connection.close()
