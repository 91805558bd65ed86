"""What a coordinator makes its pods of: a file that whoever deploys the cluster has written into its ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.errors import UserError


@dataclass(frozen=True, slots=True)
class OwnerName:
    """The object with which the pods are deleted, named before it has a uid."""

    api_version: str
    kind: str
    plural: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkersFile:
    """cluster: its name, which begins the pods' names; template: the pod template, complete but for what differs."""

    cluster: str
    namespace: str
    owner: OwnerName
    template: Mapping[str, Any]

    def document(self) -> Mapping[str, Any]:
        """As JSON."""
        owner = self.owner
        return {
            "cluster": self.cluster,
            "namespace": self.namespace,
            "owner": {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "plural": owner.plural,
                "name": owner.name,
            },
            "template": dict(self.template),
        }


def read_workers_file(path: Path) -> WorkersFile:
    """Inverse of `WorkersFile.document`. Raises UserError."""
    try:
        found = json.loads(path.read_text())
        owner = found["owner"]
        named = OwnerName(*(str(owner[key]) for key in ("apiVersion", "kind", "plural", "name")))
        return WorkersFile(str(found["cluster"]), str(found["namespace"]), named, dict(found["template"]))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", remedy="mount the cluster's ConfigMap") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} does not describe the pods of workers",
            remedy="let `headrace cluster start --target kubernetes` write it",
        ) from error
