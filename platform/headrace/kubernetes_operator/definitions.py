"""Writes the CustomResourceDefinitions: `python -m headrace.kubernetes_operator.definitions [FOLDER]`.

Their schemas are structural schemas of Kubernetes (OpenAPI v3), made from the pydantic models. A structural schema
names the type of each field, has no references, and does not describe unknown fields: the API server removes them, and
kubectl rejects them. Defaults are left out: the operator applies them, and the stored object stays as the user wrote
it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.resources.cluster_status import ClusterStatus
from headrace.kubernetes_operator.resources.job import JobResourceStatus, JobSpec
from headrace.kubernetes_operator.resources.kinds import CLUSTER, GROUP, JOB, SNAPSHOT, VERSION, Kind
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec, SnapshotStatus

Schema = dict[str, Any]
_KEPT = (
    "type",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "required",
    "allOf",
    "oneOf",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
)
_DURATION = r"^0$|^(\d+\s*(ms|s|m|h|d|w)\s*)+$"
_PRESERVED = "x-kubernetes-preserve-unknown-fields"


def structural_schema(model: type[BaseModel]) -> Schema:
    """The schema of a model's file form."""
    whole = model.model_json_schema(by_alias=True)
    return _structural(whole, whole.get("$defs", {}))


def _structural(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, defs)
    if schema.get("format") == "duration":
        return _described(schema, {"type": "string", "pattern": _DURATION})
    if schema.get(_PRESERVED) and "properties" not in schema:
        return _described(schema, {_PRESERVED: True})
    kept = _described(schema, {key: deepcopy(schema[key]) for key in _KEPT if key in schema})
    if "const" in schema:
        kept |= {"type": "string", "enum": [schema["const"]]}
    if "properties" in schema:
        kept["properties"] = {name: _structural(each, defs) for name, each in schema["properties"].items()}
    elif schema.get("type") == "object":
        kept |= _free_object(schema, defs)
    if "items" in schema:
        kept["items"] = _structural(schema["items"], defs)
    return kept


def _free_object(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Schema:
    """An object whose names are the user's."""
    values = schema.get("additionalProperties", True)
    if isinstance(values, Mapping):
        return {"additionalProperties": _structural(values, defs)}
    return {_PRESERVED: True}


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows references, and returns the one choice that is not null: an optional field may be left out."""
    while True:
        choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(choices) == 1:
            schema = {**choices[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
        elif "$ref" in schema:
            target = defs[str(schema["$ref"]).rpartition("/")[2]]
            # keywords of the field override those of its model
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        else:
            return schema


def _described(schema: Mapping[str, Any], kept: Schema) -> Schema:
    # the first paragraph: the others of a docstring describe fields by their names in Python
    first = str(schema.get("description", "")).partition("\n\n")[0]
    return kept | ({"description": " ".join(first.split())} if first else {})


# ---- documents -------------------------------------------------------------------------------------------------------


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


# ---- files -----------------------------------------------------------------------------------------------------------

FOLDERS = (Path("deploy/k8s/operator/crds"), Path("deploy/k8s/chart/crds"))
"""For kubectl, and the same for Helm."""
_HEAD = "# Written by `make docs` from the models in headrace.kubernetes_operator.resources.\n"
_WIDTH = 120


def rendered() -> Mapping[str, str]:
    """File name -> its text."""
    return {f"{each.kind.plural}.yaml": _text(definition_document(each)) for each in DEFINITIONS}


def _text(document: Mapping[str, object]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = _WIDTH
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(document, stream)
    return _HEAD + stream.getvalue()


def main(arguments: list[str]) -> None:
    """Writes the files to the folder named, else to their places in the repository."""
    for folder in (Path(arguments[0]),) if arguments else FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in rendered().items():
            (folder / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
