"""Which subtask reads which split."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import InternalError
from headrace.core.source_state import AppliedFloor, SourceState, SplitState
from headrace.execution.split_assignment import assign_splits, subtask_of, without_replaced
from support.storage.checkpoints import manifest
from support.suite.properties import weighted

PLACES = st.lists(st.tuples(st.sampled_from(["flights", "a", "ö"]), st.integers(0, 40)), unique=True, max_size=40)


def split(topic: str, partition: int, start: int = 0, stop: int | None = None) -> SplitDocument:
    return SplitDocument(topic=topic, partition=partition, start=start, stop=stop)


def test_the_place_of_a_partition_is_fixed() -> None:
    # a change of these would send restored partitions elsewhere than newly found ones
    assert [subtask_of("flights", partition, 4) for partition in range(5)] == [2, 3, 0, 1, 2]
    assert subtask_of("other", 5, 4) == 1


@weighted(4)
@given(places=PLACES, parallelism=st.integers(1, 9), data=st.data())
def test_every_split_has_one_subtask_whatever_the_order(
    places: list[tuple[str, int]], parallelism: int, data: st.DataObject
) -> None:
    splits = [split(topic, partition) for topic, partition in places]
    given_ = assign_splits(splits, None, parallelism)
    assert given_ == assign_splits(data.draw(st.permutations(splits)), None, parallelism)
    assert len(given_) == parallelism
    assert sorted((each.split.topic, each.split.partition) for own in given_ for each in own) == sorted(places)
    for topic in {topic for topic, _ in places}:
        counts = [
            sum(subtask_of(topic, partition, parallelism) == number for partition in range(parallelism * 3))
            for number in range(parallelism)
        ]
        assert counts == [3] * parallelism, "neighbours go to different subtasks"


def test_known_splits_go_on_where_they_were() -> None:
    known = SplitState("t", 1, 17, max_ts=5, floor=3)
    ((new, old),) = assign_splits([split("t", 1, 2, 40), split("t", 0, 9)], SourceState((known,)), 1)
    assert (new.split, new.state) == (split("t", 0, 9), None)
    assert (old.split, old.state) == (split("t", 1, 17, 40), known)


@pytest.mark.parametrize(("stop", "finished"), [(17, True), (16, True), (18, False), (None, False)])
def test_a_stop_that_moved_on_is_not_reached(stop: int | None, finished: bool) -> None:
    state = SourceState((SplitState("t", 0, 17, finished=True),))
    ((only,),) = assign_splits([split("t", 0, 0, stop)], state, 1)
    assert only.state is not None
    assert only.state.finished is finished


def test_a_position_of_a_split_that_is_not_there_is_an_error() -> None:
    state = SourceState((SplitState("t", 0, 1), SplitState("t", 1, 1)))
    with pytest.raises(InternalError, match=r"t\[1\]"):
        assign_splits([split("t", 0)], state, 2)


@given(
    before=st.lists(st.sampled_from(["", "c/1", "c/2"]), min_size=1, max_size=5),
    now=st.lists(st.sampled_from(["", "c/1", "c/2"]), min_size=5, max_size=5),
)
def test_positions_of_a_log_that_is_another_one_now_are_dropped_and_no_others(
    before: list[str], now: list[str]
) -> None:
    """What has no identity on either side counts as the same: state of an earlier version has none."""

    def splits(identities: list[str]) -> tuple[SplitDocument, ...]:
        return tuple(
            SplitDocument(topic="t", partition=number, start=0, identity=each) for number, each in enumerate(identities)
        )

    state = SourceState(
        tuple(SplitState("t", number, 10 + number) for number in range(len(before))),
        99,
        tuple(AppliedFloor("s", "t", number, 3, 5) for number in range(len(before))),
    )
    checkpoint = manifest(3).model_copy(update={"sources": {"s": state}, "splits": {"s": splits(before)}})
    left = without_replaced(checkpoint, {"s": splits(now)}).sources["s"]
    kept = [n for n, each in enumerate(before) if not each or not now[n] or each == now[n]]
    assert [each.partition for each in left.splits] == kept
    assert [each.partition for each in left.applied] == kept
    assert left.emitted == 99
    # all of it can be assigned: nothing is left of a split that is not there
    assert assign_splits(splits(now), left, 2)
