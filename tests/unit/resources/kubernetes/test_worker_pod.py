"""The pod of a worker, from its template, and the report of its status."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.resources.kubernetes.worker_pod import REASON_CHARS_MAX, Owner, pod_report, worker_pod

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "payments", "app.kubernetes.io/name": "theirs"}, "annotations": {"note": "1"}},
    "spec": {
        "restartPolicy": "Always",
        "nodeSelector": {"disk": "fast"},
        "containers": [
            {"name": "theirs", "image": "sidecar:1"},
            {"name": "worker", "image": "headrace:1", "args": ["replaced"], "env": [{"name": "A", "value": "b"}]},
        ],
    },
}
OWNER = Owner("apps/v1", "Deployment", "flights", "0c0ffee0")


def test_a_worker_is_its_template_with_its_name_and_arguments() -> None:
    before = deepcopy(TEMPLATE)
    arguments = ["headrace-worker", "--id", "flights-w3-1"]
    pod = worker_pod(TEMPLATE, "flights-w3-1", arguments, cluster="flights", term=3, owner=OWNER)
    assert before == TEMPLATE
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) == ("v1", "Pod", "flights-w3-1")
    assert pod["metadata"]["labels"] == {
        "team": "payments",
        "app.kubernetes.io/name": "headrace",
        "app.kubernetes.io/instance": "flights",
        "app.kubernetes.io/managed-by": "headrace",
        "app.kubernetes.io/component": "worker",
        "headrace.dev/cluster": "flights",
    }
    assert pod["metadata"]["annotations"] == {"note": "1", "headrace.dev/term": "3"}
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "flights",
            "uid": "0c0ffee0",
            "controller": False,
            "blockOwnerDeletion": False,
        }
    ]
    spec = pod["spec"]
    assert spec["restartPolicy"] == "Never", "a worker id is used once"
    assert spec["nodeSelector"] == {"disk": "fast"}
    theirs, worker = spec["containers"]
    assert theirs == {"name": "theirs", "image": "sidecar:1"}
    assert worker["args"] == ["headrace-worker", "--id", "flights-w3-1"]
    assert worker["env"] == [{"name": "A", "value": "b"}]


def test_a_template_without_the_workers_container_is_refused() -> None:
    with pytest.raises(UserError, match="no container named 'worker'"):
        worker_pod({"spec": {"containers": [{"name": "main"}]}}, "w", [], cluster="c", term=1, owner=None)


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
