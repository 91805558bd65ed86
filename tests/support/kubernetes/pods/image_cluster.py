"""A cluster of pods of a built image, with nothing of this machine in them: what they share is in object storage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.kubernetes.nodes.cluster import NodeCluster
from support.kubernetes.pods.cluster import PodCluster
from support.patience import CLUSTER_TIMES


class ImageCluster(PodCluster):
    """The cluster `flights` in a namespace, of an image that its nodes have.

    ledger: URL of the storage; variables: by which pods reach it.
    """

    def __init__(
        self, nodes: NodeCluster, namespace: str, folder: Path, image: str, ledger: str, variables: Mapping[str, str]
    ) -> None:
        super().__init__(nodes, namespace, folder)
        self._image = image
        self._ledger = ledger
        self._variables = variables

    def start(self, workers: int = 2, slots: int = 1) -> None:
        """Starts it with one coordinator, and at most so many workers."""
        self.apply(self.description(workers, slots, coordinators=1))

    def description(self, workers: int = 2, slots: int = 1, coordinators: int = 2) -> Mapping[str, Any]:
        """What is in its file. workers: at most."""
        return {
            "image": self._image,
            "imagePullPolicy": "Never",
            "ledger": self._ledger,
            "env": {**CLUSTER_TIMES, **self._variables},
            "coordinator": {"replicas": coordinators, "cpu": "50m"},
            "workers": {"slots": slots, "max": workers, "idle": "1s", "cpu": "50m", "memory": "1Gi"},
            "networkPolicy": {"enabled": True},
        }

    def close(self) -> None:
        """Closes the connections to a cluster that somebody else ends."""
        if self._client is not None:
            self._client.close()
        self.connection.close()
