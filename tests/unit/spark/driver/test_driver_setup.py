from __future__ import annotations

from typing import Any

import pytest

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import InternalError, UserError
from headrace.core.source_state import SourceState, SplitState
from headrace.spark.driver.driver_setup import keeps_state, shares_of
from unit.spark.plans import COUNT, plan_of

SPLITS = {
    "one": tuple(SplitDocument(topic="one", partition=number, start=0, stop=10) for number in range(3)),
    "two": (),
}


def positions(share: Any) -> list[tuple[int, int]]:
    return [(each.split.partition, each.split.start) for each in share.splits]


def test_a_task_for_each_split_and_one_for_none() -> None:
    shares = shares_of(plan_of({"counts": {"from": "one", **COUNT}}, "counts"), SPLITS, {})
    assert [positions(share) for share in shares["one"]] == [[(0, 0)], [(1, 0)], [(2, 0)]]
    assert [positions(share) for share in shares["two"]] == [[]]


def test_where_the_savepoint_stood() -> None:
    read = SourceState((SplitState("one", 1, 7, max_ts=5, finished=True),), emitted=4)
    shares = shares_of(plan_of({"counts": {"from": "one", **COUNT}}, "counts"), SPLITS, {"one": read})
    assert [positions(share) for share in shares["one"]] == [[(0, 0)], [(1, 7)], [(2, 0)]]
    assert [share.emitted for share in shares["one"]] == [4, 4, 4]
    assert shares["two"][0].emitted is None
    (state,) = (each.state for each in shares["one"][1].splits)
    assert state is not None
    assert not state.finished, "its stop has moved on"


def test_a_split_that_is_gone_and_one_without_end() -> None:
    plan = plan_of({"counts": {"from": "one", **COUNT}}, "counts")
    with pytest.raises(InternalError, match=r"one\[9\]"):
        shares_of(plan, SPLITS, {"one": SourceState((SplitState("one", 9, 7),))})
    endless = {"one": (SplitDocument(topic="one", partition=0, start=0, stop=None),), "two": ()}
    with pytest.raises(UserError, match="source 'one' has no end"):
        shares_of(plan, endless, {})


def test_a_step_that_keeps_state_stands_behind_an_edge() -> None:
    plan = plan_of(
        {"more": {"from": "one", "with_columns": {"m": "id + 1"}}, "counts": {"from": "more", **COUNT}}, "counts"
    )
    assert [task.name for task in plan.tasks if keeps_state(task)] == ["counts"]
