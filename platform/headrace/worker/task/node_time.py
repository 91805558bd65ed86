"""The time that the nodes of a subtask spend: inside of a node, and inside of what is behind it in the chain.

A chain is a tree of calls, so the time of a node itself is that of the calls to it, less that of the calls that it made
to its receivers. Measured once per batch and signal; rows are not touched.
"""

from __future__ import annotations

import time

import polars as pl

from headrace.core.signals import Signal
from headrace.operators.chain import Receiver


class CallTime:
    """Sums the time of calls; one thread calls, any thread may read while a call goes on."""

    __slots__ = ("_since_s", "_total_s")

    def __init__(self) -> None:
        self._total_s = 0.0
        self._since_s: float | None = None

    def begin(self, now_s: float) -> None:
        """A call begins."""
        self._since_s = now_s

    def end(self, now_s: float) -> None:
        """The call that began last has ended."""
        if self._since_s is not None:
            self._total_s += now_s - self._since_s
            self._since_s = None

    @property
    def ms(self) -> float:
        """All calls so far, the current one included, in ms."""
        total_s, since_s = self._total_s, self._since_s
        return (total_s + (0.0 if since_s is None else time.monotonic() - since_s)) * 1_000


class NodeTime:
    """The time of one node in one subtask. calls: to the node; behind: from the node to its receivers."""

    __slots__ = ("behind", "calls")

    def __init__(self) -> None:
        self.calls = CallTime()
        self.behind = CallTime()

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
