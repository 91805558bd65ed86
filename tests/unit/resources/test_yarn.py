"""Workers as containers of YARN: their numbers, why one waits, and which containers are never granted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError, InternalError
from headrace.resources.yarn import number_of, pending_reason, require_grantable, worker_of
from headrace.yarn.master.application_master import Standing
from headrace.yarn.records import ContainerSize, Headroom


@given(st.integers(0, 2**38 - 1), st.integers(0, 2**24 - 1))
def test_a_number_names_its_worker(term: int, made: int) -> None:
    worker = f"w{term}-{made}"
    number = number_of(worker)
    assert 0 <= number < 2**63, "Java's long"
    assert worker_of(number) == worker


@pytest.mark.parametrize("worker", ["flights-w1-1", "w1", f"w1-{2**24}", f"w{2**38}-1"])
def test_other_ids_are_a_defect(worker: str) -> None:
    with pytest.raises(InternalError):
        number_of(worker)


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
