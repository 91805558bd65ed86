"""What a discovery says of splits: which have rows, and which log is not what was read."""

from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import ExternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.spark.driver.follow_sources import Discovery


def discovery(*, end: int, limit: int | None = None) -> Discovery:
    """One split that ends at `end` now."""
    split = SplitDocument(topic="t", partition=0, start=2, stop=limit)
    now = end if limit is None else min(end, limit)
    return Discovery({"s": (split,)}, {"s": (split.model_copy(update={"stop": now}),)})


def read(position: int) -> dict[str, SourceState]:
    return {"s": SourceState((SplitState("t", 0, position),))}


def test_a_split_is_fresh_until_it_was_read() -> None:
    assert discovery(end=5).fresh({}) == discovery(end=5).fresh(read(4)) == {("s", "t", 0)}
    assert discovery(end=5).fresh(read(5)) == discovery(end=2).fresh({}) == frozenset()


def test_behind_its_limit_nothing_is_looked_at() -> None:
    assert discovery(end=9, limit=5).fresh(read(6)) == frozenset()
    assert discovery(end=9, limit=5).ended == {"s"}
    assert not discovery(end=4, limit=5).ended


def test_a_start_may_lie_behind_what_can_be_read() -> None:
    """Of a partition with an open transaction."""
    assert discovery(end=1).fresh({}) == discovery(end=1).fresh(read(2)) == frozenset()


def test_a_log_that_has_fallen_back_is_an_error() -> None:
    for limit in (None, 20):
        with pytest.raises(ExternalError, match=r"source 's': t\[0\] ends at 3, and was read up to 10") as raised:
            discovery(end=3, limit=limit).fresh(read(10))
        assert raised.value.retry
