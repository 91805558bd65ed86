"""The CustomResourceDefinitions as documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.definitions.schema import structural_schema
from headrace.kubernetes_operator.resources.cluster_status import ClusterStatus
from headrace.kubernetes_operator.resources.job_spec import JobSpec
from headrace.kubernetes_operator.resources.job_status import JobResourceStatus
from headrace.kubernetes_operator.resources.kinds import CLUSTER, GROUP, JOB, SNAPSHOT, VERSION, Kind
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec, SnapshotStatus


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    is_wide: bool = False

    def document(self) -> Mapping[str, Any]:
        """As the definition has it."""
        # priority 0 is always shown, 1 with `-o wide`
        wide = {"priority": 1} if self.is_wide else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **wide}


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind with its models and columns."""

    kind: Kind
    summary: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: Sequence[Column]


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_REASON = Column("Reason", '.status.conditions[?(@.type=="Degraded")].reason', is_wide=True)
DEFINITIONS = (
    Definition(
        CLUSTER,
        "a session cluster of coordinators and workers",
        ClusterSpec,
        ClusterStatus,
        (
            Column("State", ".status.state"),
            _READY,
            Column("Coordinators", ".status.coordinators"),
            Column("Workers", ".status.workers", "integer"),
            _REASON,
            _AGE,
        ),
    ),
    Definition(
        JOB,
        "a job, in a cluster or with one of its own",
        JobSpec,
        JobResourceStatus,
        (
            Column("State", ".status.state"),
            _READY,
            Column("Job", ".status.jobId"),
            Column("Savepoint", ".status.lastSavepoint", is_wide=True),
            _REASON,
            _AGE,
        ),
    ),
    Definition(
        SNAPSHOT,
        "a savepoint of a job",
        SnapshotSpec,
        SnapshotStatus,
        (
            Column("Phase", ".status.phase"),
            Column("Of", ".spec.job"),
            Column("Location", ".status.location"),
            _AGE,
        ),
    ),
)


def definition_document(definition: Definition) -> Mapping[str, Any]:
    """The CustomResourceDefinition."""
    kind = definition.kind
    names = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": [kind.short],
        "categories": ["headrace"],
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [each.document() for each in definition.columns],
        "schema": {"openAPIV3Schema": _schema(definition)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.definition},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _schema(definition: Definition) -> Mapping[str, Any]:
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": structural_schema(definition.spec),
        "status": structural_schema(definition.status),
    }
    return {"type": "object", "description": definition.summary, "required": ["spec"], "properties": properties}
