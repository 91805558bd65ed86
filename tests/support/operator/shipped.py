"""The operator as users install it, by base or chart, as pods of an image that a cluster's nodes have."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, Document, documents_at, metadata_of, number_at, text_at
from support.kubernetes.documents.chart import CHART, rendered_chart
from support.kubernetes.nodes.cluster import NodeCluster
from support.processes.running import wait_until
from support.repository import ROOT

_NAME = "headrace-operator"
PROBE_PORT = 8484
_SELECTOR = "app.kubernetes.io/component=operator"


def install(nodes: NodeCluster, way: str, namespace: str, image: str, folder: Path) -> None:
    """Installs it into a namespace. way: `base`, by kustomize below an overlay, or `chart`."""
    if way == "base":
        (folder / "deploy").symlink_to(ROOT / "deploy")
        name, _, tag = image.rpartition(":")
        overlay = {
            "namespace": namespace,
            "resources": ["../deploy/k8s/operator"],
            "images": [{"name": "headrace", "newName": name, "newTag": tag}],
        }
        (folder / "overlay").mkdir()
        (folder / "overlay/kustomization.yaml").write_text(json.dumps(overlay))
        nodes.kubectl("apply", "--kustomize", str(folder / "overlay"))
        return
    nodes.kubectl("apply", "--filename", str(CHART / "crds"))
    text = rendered_chart(folder, namespace, {"operator": {"enabled": True, "image": image}})
    nodes.kubectl("apply", "--filename", "-", given=text)


class OperatorPods:
    """The pods of an operator in a namespace."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._pods = Collection("v1", "pods", namespace)
        self._deployments = Collection("apps/v1", "deployments", namespace)
        self._leases = Collection("coordination.k8s.io/v1", "leases", namespace)

    def wait_ready(self) -> None:
        """Returns when all replicas are ready, and one is elected."""
        wait_until(lambda: self._ready() == 2 and bool(self.leader()), "two operators are ready, and one leads")

    def leader(self) -> str:
        """The pod that holds the Lease; empty: none does."""
        holder = next((text_at(each, "spec", "holderIdentity") or "" for each in self._named_leases()), "")
        return next((name for name in self.names() if holder.startswith(name)), "")

    def kill(self, name: str) -> None:
        """Deletes a pod without a grace time."""
        self._connection.delete(self._pods, name, grace_s=0)

    def names(self) -> list[str]:
        """Pods that are not being deleted."""
        found = map(metadata_of, self._connection.list(self._pods, labels=_SELECTOR).items)
        return [each.name for each in found if not each.is_deleted]

    def restarts(self) -> int:
        """How often containers have ended and were started again."""
        pods = self._connection.list(self._pods, labels=_SELECTOR).items
        statuses = [each for pod in pods for each in documents_at(pod, "status", "containerStatuses")]
        return sum(number_at(each, "restartCount") or 0 for each in statuses)

    def metrics(self, name: str) -> str:
        """What a pod shows at the port of its probes."""
        address = text_at(self._connection.get(self._pods, name), "status", "podIP")
        return httpx.get(f"http://{address}:{PROBE_PORT}/metrics", trust_env=False).raise_for_status().text

    def logs(self) -> str:
        """What they have printed."""
        texts = []
        for name in self.names():
            with self._connection.logs(self._pods, name) as lines:
                texts.append(f"{name}:\n{b''.join(line + bytes([10]) for line in lines).decode()}")
        return "\n".join(texts)

    def _ready(self) -> int:
        return number_at(self._connection.get(self._deployments, _NAME), "status", "readyReplicas") or 0

    def _named_leases(self) -> list[Document]:
        return [each for each in self._connection.list(self._leases).items if metadata_of(each).name == _NAME]
