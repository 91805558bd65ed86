"""The configuration of a cluster on Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.core.errors import UserError

CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z")
"""A name of Services and of what begins the names of pods, which are at most 63 characters long."""
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?\Z")


@dataclass(frozen=True, slots=True)
class PodSize:
    """What a pod requests and may use, as quantities of Kubernetes. cpu is requested, not limited: a limit would stop
    the process for parts of each 100 ms. memory is both."""

    cpu: str
    memory: str

    def __post_init__(self) -> None:
        for name, text in (("cpu", self.cpu), ("memory", self.memory)):
            if not _QUANTITY.match(text):
                raise UserError(
                    f"{text!r} is no amount of {name}", remedy="write such as 500m or 2 (cpu), 2Gi (memory)"
                )

    def resources(self) -> Mapping[str, Any]:
        """As a container's `resources`."""
        return {"requests": {"cpu": self.cpu, "memory": self.memory}, "limits": {"memory": self.memory}}


@dataclass(frozen=True, slots=True)
class KubernetesCluster:
    """A cluster of headrace in a namespace.

    name, namespace         of its objects
    image                   of all of its pods; `headrace` is its entry point
    ledger                  URL of storage that all coordinators reach: their jobs, and checkpoints by default
    replicas                coordinators: one leads, the others are standbys
    provisioning            how many workers, with how many slots each
    coordinator, worker     sizes of their pods
    service_account         of coordinators; its Role is that of `deploy/k8s`
    coordinator_template    the user's pod template, merged into ours; likewise worker_template
    environment             variables of every process, such as HEADRACE_LEASE
    pull_policy             of the image; None: Kubernetes' default
    """

    name: str
    namespace: str
    image: str
    ledger: str
    provisioning: ProvisioningConfig
    replicas: int = 1
    coordinator: PodSize = PodSize("500m", "1Gi")
    worker: PodSize = PodSize("1", "2Gi")
    service_account: str = "headrace-coordinator"
    coordinator_template: Mapping[str, Any] = field(default_factory=dict)
    worker_template: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    pull_policy: str | None = None

    def __post_init__(self) -> None:
        if not CLUSTER_NAME.match(self.name):
            raise UserError(
                f"{self.name!r} is no name of a cluster on Kubernetes",
                remedy="write at most 40 lower-case letters, digits and '-', beginning with a letter",
            )
        if not 1 <= self.replicas <= 9:
            raise UserError(f"{self.replicas} coordinators", remedy="run 1 to 9: one leads, the others are standbys")

    @property
    def election(self) -> str:
        """The URL of its election, by which clients find it, too."""
        return f"kubernetes://{self.namespace}/{self.name}"
