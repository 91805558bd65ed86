"""The reasons why coordinators do not run, by the status of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.deployment.kubernetes.deployer import coordinator_trouble

BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
ENDED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "error: the ledger cannot be reached"}}
RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}


def pod(state: dict[str, Any], last: dict[str, Any] | None = None, restarts: int = 0) -> dict[str, Any]:
    container = {"name": "coordinator", "state": state, "lastState": last or {}, "restartCount": restarts}
    return {"metadata": {"name": "flights-1"}, "status": {"phase": "Running", "containerStatuses": [container]}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pod(RUNS), ""),
        (pod(RUNS, ENDED, 3), ""),
        (pod(ENDED), "pod flights-1: it has ended 1 times: exit code 1: error: the ledger cannot be reached"),
        (
            pod(BACK_OFF, ENDED, 2),
            "pod flights-1: it has ended 2 times: exit code 1: error: the ledger cannot be reached",
        ),
        (pod(NO_IMAGE), "pod flights-1: ErrImagePull: not found"),
        ({"metadata": {"name": "flights-1"}}, ""),
    ],
)
def test_trouble(found: dict[str, Any], said: str) -> None:
    assert coordinator_trouble([found]) == said


def test_the_first_pod_with_a_reason_counts() -> None:
    assert coordinator_trouble([pod(RUNS), pod(NO_IMAGE)]) == "pod flights-1: ErrImagePull: not found"
    assert coordinator_trouble([]) == ""
