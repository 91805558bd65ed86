"""The description of a cluster on Kubernetes: the file for `headrace cluster start --target kubernetes`. Data and its
checks only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.core.config import Duration, FileModel
from headrace.core.errors import UserError
from headrace.deployment.kubernetes.pod_template import checked_template
from headrace.deployment.kubernetes.work import Work

CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z")
"""A name of Services, with which the names of pods begin; those are at most 63 characters long."""
_QUANTITY = re.compile(r"(\d+(\.\d+)?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?\Z")


def _quantity(text: str) -> str:
    found = _QUANTITY.match(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is no amount: write such as 500m or 2 for cpu, 512Mi or 2Gi for memory and storage")
    return text


def _template(document: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return checked_template(document, "this") if document else document
    except UserError as error:
        raise ValueError(f"{error.message}: {error.remedy}") from error


Quantity = Annotated[
    str, AfterValidator(_quantity), Field(json_schema_extra={"pattern": "^" + _QUANTITY.pattern.replace(r"\Z", "$")})
]
PodTemplate = Annotated[dict[str, Any], AfterValidator(_template)]


class CoordinatorPods(FileModel):
    """The pods of coordinators: one leads, the others are standbys."""

    replicas: int = Field(default=1, ge=1, le=9, description="coordinators; one leads, the others are standbys")
    cpu: Quantity = Field(default="500m", description="requested, not limited")
    memory: Quantity = Field(default="1Gi", description="requested and limited")
    ephemeral_storage: Quantity | None = Field(
        default=None,
        alias="ephemeralStorage",
        description="requested and limited: temporary files, logs; without it what the node has",
    )
    pod_template: PodTemplate = Field(
        default_factory=dict,
        alias="podTemplate",
        description="merged into ours; the containers are `coordinator` and, in a cluster of one job, `attendant`",
    )


class AttendantPods(FileModel):
    """The container beside each coordinator of a cluster of its own, in which an application's program runs."""

    cpu: Quantity = Field(default="100m", description="requested, not limited")
    memory: Quantity = Field(default="512Mi", description="requested and limited")


class WorkerPods(FileModel):
    """The pods of workers: as many as jobs need, within limits."""

    slots: int = Field(default=1, ge=1, le=256, description="slots of each worker")
    minimum: int = Field(default=0, ge=0, alias="min", description="workers that stay without a job")
    maximum: int = Field(default=10, ge=1, alias="max", description="the most workers")
    idle_ms: Duration = Field(default=60_000, gt=0, alias="idle", description="released after so long without a job")
    cpu: Quantity = Field(default="1", description="requested, not limited")
    memory: Quantity = Field(default="2Gi", description="requested and limited")
    ephemeral_storage: Quantity | None = Field(
        default=None,
        alias="ephemeralStorage",
        description="requested and limited: state, temporary files, logs; without it what the node has",
    )
    pod_template: PodTemplate = Field(
        default_factory=dict, alias="podTemplate", description="merged into ours; the container is `worker`"
    )

    @property
    def provisioning(self) -> ProvisioningConfig:
        """As the coordinator's configuration. Raises UserError for limits that do not fit together."""
        return ProvisioningConfig(self.slots, self.minimum, self.maximum, idle_ms=self.idle_ms)


class NetworkRules(FileModel):
    """What a NetworkPolicy lets through to the pods of a cluster, and from them. Peers and rules are written as in a
    NetworkPolicy, and checked by the API server only.
    """

    enabled: bool = Field(default=False, description="whether there are policies")
    clients: list[dict[str, Any]] = Field(
        default_factory=list, description="peers that may use the REST API, beside pods labelled headrace.dev/client"
    )
    egress: list[dict[str, Any]] | None = Field(
        default=None, description="all that pods may reach outside of the cluster, beside DNS; none: everything"
    )


class ClusterSpec(FileModel):
    """A cluster of headrace. cpu is requested and not limited, because a limit stops processes for parts of each
    100 ms.
    """

    image: str = Field(min_length=1, description="of all pods; `headrace` is its entry point")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(default=None, alias="imagePullPolicy")
    ledger: str = Field(
        min_length=1, description="URL of storage that all pods reach: jobs, and checkpoints by default"
    )
    service_account: str = Field(
        default="headrace-coordinator", alias="serviceAccount", description="of coordinators; deploy/k8s has its Role"
    )
    coordinator: CoordinatorPods = Field(default_factory=CoordinatorPods)
    workers: WorkerPods = Field(default_factory=WorkerPods)
    tls: bool = Field(default=True, description="between processes and to clients, by the Secret NAME-tls")
    attendant: AttendantPods = Field(default_factory=AttendantPods)
    after_end_ms: Duration = Field(
        default=60_000, ge=0, alias="afterEnd", description="a cluster of one job answers so long after the job's end"
    )
    env: dict[str, str] = Field(default_factory=dict, description="variables of every process; no secrets")
    disruption_budget: bool = Field(
        default=True, alias="disruptionBudget", description="whether a drain evicts one coordinator at a time"
    )
    network_policy: NetworkRules = Field(default_factory=NetworkRules, alias="networkPolicy")


@dataclass(frozen=True, slots=True)
class KubernetesCluster:
    """A cluster of headrace in a namespace. name: of its objects; work: None for a cluster that serves many jobs."""

    name: str
    namespace: str
    spec: ClusterSpec
    work: Work | None = None

    def __post_init__(self) -> None:
        if not CLUSTER_NAME.match(self.name):
            raise UserError(
                f"{self.name!r} is no name of a cluster on Kubernetes",
                remedy="write at most 40 lower-case letters, digits and '-', beginning with a letter",
            )

    @property
    def election(self) -> str:
        """The URL of its election, by which clients find it, too."""
        return f"kubernetes://{self.namespace}/{self.name}"
