"""What a pod's status says about its worker. The documents have the form that a Kubernetes 1.37 answers with."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.resources.kubernetes.pod_report import REASON_CHARS_MAX, pod_report

PENDING, RUNNING, ENDED = WorkerPhase.PENDING, WorkerPhase.RUNNING, WorkerPhase.ENDED


def pod(phase: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "status": {"phase": phase, **status}}


def container(name: str = "worker", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


def ended(code: int, reason: str = "Error", message: str | None = None) -> dict[str, Any]:
    text = {} if message is None else {"message": message}
    return {"terminated": {"exitCode": code, "reason": reason, **text}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient memory.",
}
PULLS: dict[str, Any] = {"waiting": {"reason": "ErrImageNeverPull", "message": 'Container image "x" is not present'}}
RUNS = container(running={"startedAt": "2026-01-01T00:00:00Z"})


@pytest.mark.parametrize(
    ("found", "phase", "reason"),
    [
        ({"metadata": {"name": "w"}}, PENDING, ""),
        (pod("Pending", conditions=[UNSCHEDULABLE]), PENDING, "0/1 nodes are available: 1 Insufficient memory."),
        (pod("Pending", containerStatuses=[container(waiting={"reason": "ContainerCreating"})]), PENDING, ""),
        (
            pod("Pending", containerStatuses=[container(**PULLS)]),
            PENDING,
            'ErrImageNeverPull: Container image "x" is not present',
        ),
        (
            pod("Pending", initContainerStatuses=[container("prepare", **PULLS)], containerStatuses=[]),
            PENDING,
            'ErrImageNeverPull: Container image "x" is not present',
        ),
        (pod("Running", containerStatuses=[RUNS]), RUNNING, ""),
        (pod("Running", containerStatuses=[container("theirs", **ended(3)), RUNS]), RUNNING, ""),
        (pod("Running", containerStatuses=[RUNS, container("theirs", **ended(0))]), RUNNING, ""),
        (pod("Unknown"), RUNNING, ""),
        (
            pod("Running", containerStatuses=[container("theirs", running={}), container(**ended(1))]),
            ENDED,
            "exit code 1",
        ),
        (pod("Succeeded", containerStatuses=[container(**ended(0, "Completed"))]), ENDED, "exit code 0"),
        (
            pod("Failed", containerStatuses=[container(**ended(137, "OOMKilled"))]),
            ENDED,
            "OOMKilled, exit code 137",
        ),
        (
            pod("Failed", containerStatuses=[container(**ended(1, message="error: no token\n  give one\n"))]),
            ENDED,
            "exit code 1: error: no token give one",
        ),
        (
            pod("Failed", initContainerStatuses=[container("prepare", **ended(2))], containerStatuses=[container()]),
            ENDED,
            "container prepare: exit code 2",
        ),
        (
            pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            ENDED,
            "Evicted: The node was low on resource: memory.",
        ),
        (pod("Failed"), ENDED, ""),
    ],
)
def test_reports(found: dict[str, Any], phase: WorkerPhase, reason: str) -> None:
    assert pod_report(found) == WorkerReport("w", phase, reason)


def test_a_long_reason_is_cut() -> None:
    found = pod("Failed", reason="Evicted", message="x" * 10_000)
    assert len(pod_report(found).reason) == REASON_CHARS_MAX
