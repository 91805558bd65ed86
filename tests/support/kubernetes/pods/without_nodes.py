"""Pods of workers in a control plane without nodes: the API server is real, and a test does the node's part.

It writes into a pod's status what a kubelet writes there. Pods that run are in the tests with nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, metadata_of, text_at, value_at
from headrace.resources.driver import ResourceDriver
from headrace.resources.kubernetes.worker_pods import OwnerName, WorkerPods, WorkersFile
from headrace.resources.worker_order import WorkerOrder
from support.kubernetes.control.kubernetes import Kubernetes
from support.processes.running import wait_until

CLUSTER, FAILS = "flights", "test/fails"


class PodsWithoutNodes:
    """A namespace of its own, with a Deployment that has no pods."""

    def __init__(self, kubernetes: Kubernetes, connection: Connection, namespace: str) -> None:
        self._kubernetes = kubernetes
        self._connection = connection
        self.namespace = namespace
        self._pods = Collection("v1", "pods", namespace)

    def driver(self, *, fails: bool = False) -> ResourceDriver:
        """fails: its pods end as soon as they run."""
        container = {"name": "worker", "image": "headrace:1"}
        annotations = {FAILS: "yes"} if fails else {}
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        owner = OwnerName("apps/v1", "Deployment", "deployments", CLUSTER)
        workers = WorkersFile(CLUSTER, self.namespace, owner, template)
        order = WorkerOrder(f"{CLUSTER}-control:8481", 1)
        return WorkerPods(self._kubernetes.connection(), workers, order, term=1)

    def work(self) -> None:
        """Lets pending pods run, and those end that are to fail."""
        for pod in self._connection.list(self._pods).items:
            if text_at(pod, "status", "phase") == "Pending":
                fails = FAILS in metadata_of(pod).annotations
                self._end(metadata_of(pod).name, "error: no token") if fails else self._run(metadata_of(pod).name)

    def kill(self, worker: str) -> None:
        """The pod's container ends as one that was killed."""
        self._end(worker, "", code=137)

    def refuse(self) -> None:
        """A quota of no pods."""
        quotas = Collection("v1", "resourcequotas", self.namespace)
        self._connection.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
        # it is enforced once its controller has counted
        wait_until(
            lambda: value_at(self._connection.get(quotas, "none"), "status", "hard") is not None, "a counted quota"
        )

    def processes(self) -> int:
        """Pods that have not ended."""
        phases = [text_at(each, "status", "phase") for each in self._connection.list(self._pods).items]
        return sum(each in {"Pending", "Running"} for each in phases)

    def _run(self, name: str) -> None:
        self._note(name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    def _end(self, name: str, message: str, code: int = 1) -> None:
        self._note(name, "Failed", {"terminated": {"exitCode": code, "reason": "Error", "message": message}})

    def _note(self, name: str, phase: str, state: dict[str, Any]) -> None:
        container = {
            "name": "worker",
            "image": "headrace:1",
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container]}
        self._connection.patch(self._pods, name, {"status": status}, subresource="status")


@contextmanager
def pods_without_nodes(kubernetes: Kubernetes) -> Iterator[PodsWithoutNodes]:
    """In a namespace of its own, which is deleted at the end."""
    connection = kubernetes.connection()
    labels = {"app": CLUSTER}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "headrace:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    try:
        with kubernetes.namespace("pods") as namespace:
            deployments = Collection("apps/v1", "deployments", namespace)
            connection.create(deployments, {"metadata": {"name": CLUSTER}, "spec": spec})
            yield PodsWithoutNodes(kubernetes, connection, namespace)
    finally:
        connection.close()
