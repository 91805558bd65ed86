"""What a pod's status says about its worker, and why. Pure.

| pod                                                | worker  | reason                                               |
|----------------------------------------------------|---------|------------------------------------------------------|
| Pending, not scheduled                             | PENDING | the scheduler's: `0/3 nodes are available: ..`       |
| Pending, a container waits                         | PENDING | the node's: `ErrImagePull: ..`, `CreateContainer..`  |
| Running, the worker's container runs               | RUNNING |                                                      |
| Running, the worker's container has ended          | ENDED   | exit code, or `OOMKilled`, and what it printed last  |
| Succeeded, Failed                                  | ENDED   | the pod's (`Evicted: ..`), or the container's        |

A pod that is being deleted counts as what it still is: its worker leaves in order. A node that is lost shows nothing of
this for a long time; the coordinator notices by its own heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.resources.kubernetes.worker_pod import CONTAINER

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
