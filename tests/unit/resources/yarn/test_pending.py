"""Why a worker waits for its container, and which containers are never granted."""

from __future__ import annotations

import pytest

from headrace.core.errors import ExternalError
from headrace.resources.yarn.worker_containers import pending_reason, require_grantable
from headrace.yarn.master.application_master import Standing
from headrace.yarn.records import ContainerSize, Headroom

SIZE = ContainerSize(2048, 2)


@pytest.mark.parametrize(
    ("left", "is_named"),
    [(None, False), (Headroom(2048, 2), False), (Headroom(2047, 8), True), (Headroom(8192, 1), True)],
)
def test_a_full_queue_is_named(left: Headroom | None, is_named: bool) -> None:
    reason = pending_reason(SIZE, Standing((), "night", left, SIZE))
    assert ("queue night has" in reason) == is_named
    assert bool(reason) == is_named


def test_a_container_that_no_node_has_is_refused() -> None:
    require_grantable(SIZE, SIZE)
    for maximum in (ContainerSize(2047, 2), ContainerSize(4096, 1)):
        with pytest.raises(ExternalError, match="larger than the cluster grants"):
            require_grantable(SIZE, maximum)
