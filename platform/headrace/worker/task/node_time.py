"""The time that the nodes of a subtask spend: inside of a node, and inside of what is behind it in the chain.

A chain is a tree of calls, so the time of a node itself is that of the calls to it, less that of the calls that it made
to its receivers. Measured once per batch and signal; rows are not touched.
"""

from __future__ import annotations

import time

import polars as pl

from headrace.core.signals import Signal
from headrace.exchange.stopwatch import Stopwatch
from headrace.operators.chain import Receiver


class NodeTime:
    """The time of one node in one subtask. calls: to the node; behind: from the node to its receivers."""

    __slots__ = ("behind", "calls")

    def __init__(self) -> None:
        self.calls = Stopwatch()
        self.behind = Stopwatch()

    @property
    def own_ms(self) -> float:
        """The time inside of the node itself, in ms."""
        return max(0.0, self.calls.ms - self.behind.ms)


class TimedReceiver:
    """Measures the calls to a receiver: `Receiver`.

    own     the node's time; None: the receiver is an edge to another task
    sender  the time of the node that calls it; None: the loop of the subtask does
    """

    def __init__(self, receiver: Receiver, own: NodeTime | None, sender: NodeTime | None) -> None:
        self._receiver = receiver
        sums = (None if own is None else own.calls, None if sender is None else sender.behind)
        self._sums = tuple(each for each in sums if each is not None)

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Passes rows on."""
        self._begin()
        self._receiver.on_batch(batch)
        self._end()

    def on_signal(self, signal: Signal) -> None:
        """Passes a signal on."""
        self._begin()
        self._receiver.on_signal(signal)
        self._end()

    def _begin(self) -> None:
        now_s = time.monotonic()
        for each in self._sums:
            each.begin(now_s)

    def _end(self) -> None:
        now_s = time.monotonic()
        for each in self._sums:
            each.end(now_s)
