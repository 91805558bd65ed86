"""A stand-in for a Kubernetes cluster, running: its API on the pods' network, one node, the image of deploy/spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.containers.container_network import ContainerNetwork, container_network
from support.containers.engine import require_engine
from support.spark.kubernetes.api import KubernetesApi, served
from support.spark.kubernetes.image import image_folders, spark_image
from support.spark.kubernetes.kubelet import Kubelet, PodImage
from support.spark.kubernetes.objects import Document, Objects

IMAGE = "you/headrace-spark:1"
NAMESPACE = "data"
SERVICE_ACCOUNT = "spark"
_ROLE = "spark-role"
_EVERYBODYS = "mode=1777,exec"  # Java loads libraries that it unpacks there
_WRITABLE = dict.fromkeys(("/tmp", "/run", "/opt/spark", "/opt/spark/work-dir"), _EVERYBODYS)


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
def kubernetes_cluster(folder: Path, claims: Mapping[str, Path], image: PodImage | None = None) -> Iterator[Kubernetes]:
    """Starts it; what its pods write is in `folder`.

    claims: folders by the names of persistent volume claims; image: that of pods, or none for one that sees this
    machine's programs.
    """
    require_engine()
    folder.mkdir()
    with container_network() as network:
        yield from _running(folder, network, claims, image or _mounted_image())


def _mounted_image() -> PodImage:
    # as this test's user, so that what is written can be removed again
    return PodImage(spark_image(), image_folders(), _WRITABLE, f"{os.getuid()}:{os.getgid()}")


def _running(
    folder: Path, network: ContainerNetwork, claims: Mapping[str, Path], image: PodImage
) -> Iterator[Kubernetes]:
    objects = Objects()
    kubelet = Kubelet(folder, objects, network, {IMAGE: image}, claims)
    api = KubernetesApi(objects, (NAMESPACE, "default"), ("default", SERVICE_ACCOUNT), kubelet.log)
    try:
        with served(api, network.gateway) as url:
            kubelet.start()
            yield Kubernetes(url, network.gateway, api, kubelet)
    finally:
        kubelet.stop()
    assert not kubelet.failures, "\n".join(kubelet.failures)
