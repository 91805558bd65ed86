"""The time of a node is that of the calls to it, without the nodes behind it."""

from __future__ import annotations

import time
from collections.abc import Callable

import polars as pl

from headrace.core.signals import EndOfInput, Signal
from headrace.operators.chain import Receiver
from headrace.worker.task.node_time import NodeTime, TimedReceiver

ROW = pl.DataFrame({"x": [1]})


def spin(ms: float) -> None:
    """Works for so long."""
    until = time.monotonic() + ms / 1_000
    while time.monotonic() < until:
        pass


class Working:
    """A node that works, and calls the next one."""

    def __init__(self, ms: float, behind: Receiver | None = None, during: Callable[[], None] = lambda: None) -> None:
        self._ms, self._behind, self._during = ms, behind, during

    def on_batch(self, batch: pl.DataFrame) -> None:
        spin(self._ms)
        self._during()
        if self._behind is not None:
            self._behind.on_batch(batch)

    def on_signal(self, signal: Signal) -> None:
        self.on_batch(ROW)


def test_each_node_has_its_own_time() -> None:
    first, second = NodeTime(), NodeTime()
    edge = TimedReceiver(Working(4), None, second)
    chain = TimedReceiver(Working(6, TimedReceiver(Working(12, edge), second, first)), first, None)
    chain.on_batch(ROW)
    chain.on_signal(EndOfInput())

    assert first.own_ms >= 12
    assert second.own_ms >= 24
    assert second.behind.ms >= 8
    whole = first.own_ms + second.own_ms + second.behind.ms
    assert abs(whole - first.calls.ms) < 1e-6


def test_a_call_that_goes_on_counts() -> None:
    seen: list[float] = []
    node = NodeTime()
    TimedReceiver(Working(5, during=lambda: seen.append(node.own_ms)), node, None).on_batch(ROW)
    assert seen[0] >= 5
    assert node.own_ms >= seen[0]
