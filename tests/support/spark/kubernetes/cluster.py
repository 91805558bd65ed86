"""A stand-in for a Kubernetes cluster, running: its API on the pods' network, one node, the image of deploy/spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.containers.container_network import ContainerNetwork, container_network
from support.containers.engine import require_engine
from support.spark.kubernetes.api import KubernetesApi, served
from support.spark.kubernetes.image import spark_image
from support.spark.kubernetes.kubelet import Kubelet
from support.spark.kubernetes.objects import Document, Objects

IMAGE = "you/headrace-spark:1"
NAMESPACE = "data"
SERVICE_ACCOUNT = "spark"
_ROLE = "spark-role"


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A running cluster. url: of its API; here: this machine's address, as pods see it."""

    url: str
    here: str
    api: KubernetesApi
    kubelet: Kubelet

    def pods(self, role: str) -> list[Document]:
        """Spark's drivers or executors that are there now."""
        return self.api.objects.select("pods", NAMESPACE, f"{_ROLE}={role}")

    def pods_ever(self, role: str) -> list[str]:
        """Names of all that ever were, in their order."""
        pods = self.api.objects.created("pods")
        return [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"].get(_ROLE) == role]

    def kill_pod(self, name: str) -> None:
        """As `kubectl delete pod --force`."""
        self.api.objects.delete("pods", NAMESPACE, name)


@contextmanager
def kubernetes_cluster(folder: Path, claims: Mapping[str, Path]) -> Iterator[Kubernetes]:
    """Starts it; what its pods write is in `folder`. claims: folders by the names of persistent volume claims."""
    require_engine()
    folder.mkdir()
    with container_network() as network:
        yield from _running(folder, network, claims)


def _running(folder: Path, network: ContainerNetwork, claims: Mapping[str, Path]) -> Iterator[Kubernetes]:
    objects = Objects()
    kubelet = Kubelet(folder, objects, network, {IMAGE: spark_image()}, claims)
    api = KubernetesApi(objects, (NAMESPACE, "default"), ("default", SERVICE_ACCOUNT), kubelet.log)
    try:
        with served(api, network.gateway) as url:
            kubelet.start()
            yield Kubernetes(url, network.gateway, api, kubelet)
    finally:
        kubelet.stop()
    assert not kubelet.failures, "\n".join(kubelet.failures)
