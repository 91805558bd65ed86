"""Shares are published some at a time."""

from __future__ import annotations

import threading

import pytest

from headrace.core.errors import ExternalError
from headrace.spark.driver.exchange import side_by_side
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
