"""How pods are, as the API tells it; what is said of executors that do not come."""

from __future__ import annotations

from typing import Any

from headrace.spark.cluster.kubernetes_pods import PodStatus, no_image, state_of


def pod(phase: str, state: dict[str, Any] | None = None, **status: Any) -> PodStatus:
    containers = [] if state is None else [{"name": "spark", "state": state}]
    return PodStatus.of(
        {"metadata": {"name": "one"}, "status": {"phase": phase, "containerStatuses": containers, **status}}
    )


def test_one_that_is_new() -> None:
    assert PodStatus.of({"metadata": {"name": "one"}}) == PodStatus("one", "Unknown", None, None, "")


def test_one_that_has_ended() -> None:
    status = pod("Failed", {"terminated": {"exitCode": 2, "reason": "Error", "message": "error: no"}})
    assert (status.exit_code, status.message) == (2, "error: no")


def test_one_that_was_evicted() -> None:
    assert pod("Failed", message="The node was low on resource: memory").message.startswith("The node was low")


def test_one_whose_image_does_not_come() -> None:
    status = pod("Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}})
    assert status.image_trouble == "ImagePullBackOff: Back-off pulling image"
    assert str(no_image([pod("Pending"), status])).startswith("pod one has no image: ImagePullBackOff")
    assert state_of([status]) == "waiting for executors: one Pending (ImagePullBackOff)"


def test_one_that_waits_for_something_else() -> None:
    status = pod("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert status.waiting == ("ContainerCreating", "")
    assert status.image_trouble is None


def test_where_there_is_none() -> None:
    assert "there is no pod yet" in state_of([])
