"""Calls side by side, and progress in words."""

from __future__ import annotations

import threading

import pytest

from headrace.core.errors import ExternalError
from headrace.spark.levels.parallel_calls import side_by_side
from headrace.spark.levels.progress import StageState, told
from support.processes.running import WAIT_SECONDS


def test_all_are_called_some_at_a_time() -> None:
    both = threading.Barrier(2, timeout=WAIT_SECONDS)
    called: list[bytes] = []
    lines: list[str] = []

    def call(order: bytes) -> None:
        both.wait()
        called.append(order)

    side_by_side(call, [b"a", b"b", b"c", b"d"], at_once=2, tell=lines.append)
    assert sorted(called) == [b"a", b"b", b"c", b"d"]
    assert "publishing: 4/4 shares" in lines
    side_by_side(call, [], at_once=2, tell=None)


def test_after_an_error_nothing_new_is_begun() -> None:
    called: list[bytes] = []

    def call(order: bytes) -> None:
        called.append(order)
        raise ExternalError(f"{order.decode()} failed")

    with pytest.raises(ExternalError, match="a failed"):
        side_by_side(call, [b"a", b"b"], at_once=1, tell=None)
    assert called == [b"a"]


def test_progress_tells_of_the_last_level_that_goes_on() -> None:
    assert told([None, None]) is None
    assert told([StageState(1, 4), None]) == "level 1 of 2: 1/4 tasks"
    assert told([StageState(4, 4), StageState(0, 2), None]) == "level 2 of 3: 0/2 tasks"
    assert told([StageState(4, 4), StageState(2, 2)]) is None
    assert told([StageState(3, 4), StageState(2, 2)]) == "level 1 of 2: 3/4 tasks", "made again"
