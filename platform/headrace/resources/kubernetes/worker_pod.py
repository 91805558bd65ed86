"""The pod of a worker, made of a template. Pure.

The template is a pod template as Kubernetes knows it (`metadata`, `spec`), complete but for what differs from worker to
worker: whoever deploys the cluster has merged the user's template into it. A pod is never restarted in place: a worker
id is used once, and its successor is another pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import UserError
from headrace.resources.kubernetes.labels import WORKER, labels_of

CONTAINER = "worker"
"""The container of the template that runs the worker; further ones are the user's."""
TERM_ANNOTATION = "headrace.dev/term"


@dataclass(frozen=True, slots=True)
class Owner:
    """The object with which the pods of a cluster are deleted."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> Mapping[str, Any]:
        """As an owner reference. The owner's deletion does not wait for the pods."""
        named = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        return {**named, "controller": False, "blockOwnerDeletion": False}


def worker_pod(
    template: Mapping[str, Any], name: str, arguments: Sequence[str], *, cluster: str, term: int, owner: Owner | None
) -> dict[str, Any]:
    """The pod of the worker `name`, which runs `python -m headrace ARGUMENTS`. Raises UserError for a template without
    the worker's container."""
    pod = deepcopy(dict(template))
    metadata = pod.setdefault("metadata", {})
    metadata["name"] = name
    metadata["labels"] = {**metadata.get("labels", {}), **labels_of(cluster, WORKER)}
    metadata["annotations"] = {**metadata.get("annotations", {}), TERM_ANNOTATION: str(term)}
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner.reference())]
    spec = pod.setdefault("spec", {})
    spec["restartPolicy"] = "Never"
    container = _worker_container(spec)
    # the image's entry point is `headrace`
    container["args"] = list(arguments)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def _worker_container(spec: Mapping[str, Any]) -> dict[str, Any]:
    for container in spec.get("containers", []):
        if container.get("name") == CONTAINER:
            found: dict[str, Any] = container
            return found
    raise UserError(
        f"the pod template of workers has no container named {CONTAINER!r}",
        remedy=f"name the container that runs the worker {CONTAINER!r}",
    )
