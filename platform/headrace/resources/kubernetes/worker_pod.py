"""The pod of a worker: its labels, its document from a template, and its report from a status. Pure.

The template is a pod template as Kubernetes defines it (`metadata`, `spec`), complete except for the fields that differ
from worker to worker: the deployer of the cluster has merged the user's template into it. A pod is never restarted in
place: a worker id is used once, and its successor is another pod.

| pod                                                | worker  | reason                                               |
|----------------------------------------------------|---------|------------------------------------------------------|
| Pending, not scheduled                             | PENDING | the scheduler's: `0/3 nodes are available: ..`       |
| Pending, a container waits                         | PENDING | the node's: `ErrImagePull: ..`, `CreateContainer..`  |
| Running, the worker's container runs               | RUNNING |                                                      |
| Running, the worker's container has ended          | ENDED   | exit code, or `OOMKilled`, and its last output       |
| Succeeded, Failed                                  | ENDED   | the pod's (`Evicted: ..`), or the container's        |

A pod that is being deleted keeps its phase: its worker leaves in order. The status of a pod on a lost node stays
unchanged for a long time; the coordinator notices the loss by its own heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import UserError
from headrace.kubernetes.ownership import CLUSTER_LABEL, MANAGED_BY, MANAGER
from headrace.resources.driver import WorkerPhase, WorkerReport

COMPONENT_LABEL = "app.kubernetes.io/component"
WORKER = "worker"
COORDINATOR = "coordinator"


def labels_of(cluster: str, component: str) -> Mapping[str, str]:
    """The labels of one component of a cluster; the common ones are those that Kubernetes recommends."""
    return {
        "app.kubernetes.io/name": "headrace",
        "app.kubernetes.io/instance": cluster,
        MANAGED_BY: MANAGER,
        COMPONENT_LABEL: component,
        CLUSTER_LABEL: cluster,
    }


def selector_of(cluster: str, component: str) -> str:
    """A label selector that finds one component of a cluster."""
    return f"{CLUSTER_LABEL}={cluster},{COMPONENT_LABEL}={component}"


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


# ---- reports ---------------------------------------------------------------------------------------------------------

REASON_CHARS_MAX = 500
_STARTING = {"ContainerCreating", "PodInitializing"}
"""Reasons of containers that wait for nothing unusual."""


def pod_report(pod: Mapping[str, Any]) -> WorkerReport:
    """The report of a worker's pod, as the API shows it."""
    name, status = pod["metadata"]["name"], pod.get("status", {})
    phase = status.get("phase", "Pending")
    if phase in {"Succeeded", "Failed"}:
        return WorkerReport(name, WorkerPhase.ENDED, _short(_pod_reason(status) or ended_reason(status)))
    if phase == "Pending":
        return WorkerReport(name, WorkerPhase.PENDING, _short(pending_reason(status)))
    # its other containers may run on, or may have ended
    ended = [end_of(each) for each in status.get("containerStatuses", []) if each.get("name") == CONTAINER]
    for reason in ended:
        if reason is not None:
            return WorkerReport(name, WorkerPhase.ENDED, _short(reason))
    return WorkerReport(name, WorkerPhase.RUNNING)


def _pod_reason(status: Mapping[str, Any]) -> str:
    """Why the system ended the pod, such as an eviction."""
    return _joined(status.get("reason"), status.get("message"))


def pending_reason(status: Mapping[str, Any]) -> str:
    """Why a pod does not run yet; empty: the system gives no reason."""
    for condition in status.get("conditions", []):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _joined(None, condition.get("message")) or str(condition.get("reason", ""))
    for container in _containers(status):
        waiting = container.get("state", {}).get("waiting")
        if waiting is not None and waiting.get("reason") not in _STARTING:
            return _joined(waiting.get("reason"), waiting.get("message"))
    return ""


def ended_reason(status: Mapping[str, Any]) -> str:
    """Why a pod has ended: its first container that failed, or else its worker's."""
    ended = [(each.get("name"), end_of(each), _exit_code(each)) for each in _containers(status)]
    for name, reason, code in ended:
        if reason is not None and code and name != CONTAINER:
            return f"container {name}: {reason}"
        if reason is not None and code:
            return reason
    return next((reason for name, reason, _ in ended if name == CONTAINER and reason is not None), "")


def end_of(container: Mapping[str, Any]) -> str | None:
    """How a container has ended; None: it has not."""
    ended = container.get("state", {}).get("terminated")
    if ended is None:
        return None
    named = ended.get("reason")
    code = f"exit code {ended.get('exitCode')}"
    # these two say no more than the code
    what = code if named in {None, "Error", "Completed"} else f"{named}, {code}"
    return _joined(what, ended.get("message"))


def _exit_code(container: Mapping[str, Any]) -> int:
    return int(container.get("state", {}).get("terminated", {}).get("exitCode", 0))


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def _joined(what: str | None, more: str | None) -> str:
    # a program's output has several lines
    text = " ".join((more or "").split())
    return ": ".join(each for each in (what, text) if each)


def _short(text: str) -> str:
    return text if len(text) <= REASON_CHARS_MAX else text[: REASON_CHARS_MAX - 2] + ".."
