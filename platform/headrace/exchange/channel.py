"""The bounded mailbox of a subtask: several producers, one consumer, a bound in rows and bytes for each channel.

A full channel blocks its producer: that is the backpressure. Signals need no room. The gate decides which channels may
be read and what signals add up to; this shell only holds elements and waits.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import polars as pl

from headrace.core.batch import concat_batches
from headrace.core.signals import Element, Signal, Watermark
from headrace.exchange.gate import Gate


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """How much may wait in one channel. A batch is taken in whole while the channel is below both bounds."""

    rows_max: int = 131_072
    bytes_max: int = 64 * 1024 * 1024


class Cancelled(Exception):  # noqa: N818 - a request, not an error
    """The job is being torn down: leave the loop, keep nothing."""


@dataclass(slots=True)
class _Queue:
    elements: deque[Element] = field(default_factory=deque)
    rows: int = 0
    bytes: int = 0


class Mailbox:
    """What waits for one subtask. Producers call `put`, the subtask's thread calls `take`."""

    def __init__(self, channels: int, bounds: ChannelBounds, *, merge_rows_max: int) -> None:
        self._gate = Gate(channels)
        self._queues = [_Queue() for _ in range(channels)]
        self._bounds = bounds
        self._merge_rows_max = merge_rows_max
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._cancelled = False
        self._finished = False
        self._turn = 0
        self.rows_queued_max = 0
        """The most rows that ever waited here, over all channels: for tests and metrics."""

    def put(self, channel: int, element: Element) -> None:
        """Appends; blocks while the channel is full. Raises Cancelled once the job is torn down."""
        queue = self._queues[channel]
        with self._lock:
            if isinstance(element, pl.DataFrame):
                size = int(element.estimated_size())
                while not self._cancelled and self._full(queue):
                    self._drained.wait()
                queue.rows += element.height
                queue.bytes += size
                self.rows_queued_max = max(self.rows_queued_max, sum(each.rows for each in self._queues))
            if self._cancelled:
                raise Cancelled
            if isinstance(element, Watermark) and queue.elements and isinstance(queue.elements[-1], Watermark):
                # time that passes over a reader that is held up piles up nothing: no row lies between the two
                queue.elements.pop()
            queue.elements.append(element)
            self._filled.notify()

    def _full(self, queue: _Queue) -> bool:
        return queue.rows >= self._bounds.rows_max or queue.bytes >= self._bounds.bytes_max

    def take(self) -> list[Element]:
        """Waits for something and gives it in order: one batch (those queued are merged), or the signals that the
        gate passes on. Nothing once it is empty and was told to finish. Raises Cancelled once the job is torn
        down."""
        with self._lock:
            while True:
                if self._cancelled:
                    raise Cancelled
                batches = self._take_batches()
                if batches:
                    self._drained.notify_all()
                    break
                signals = self._take_signals()
                if signals:
                    return list(signals)
                if self._finished:
                    return []
                self._filled.wait()
        return [concat_batches(batches)]

    def _take_batches(self) -> list[pl.DataFrame]:
        """Batches at the heads of readable channels, up to the merge limit; channels take turns going first."""
        batches: list[pl.DataFrame] = []
        rows, count = 0, len(self._queues)
        self._turn = (self._turn + 1) % count
        for step in range(count):
            channel = (self._turn + step) % count
            if channel in self._gate.blocked:
                continue
            queue = self._queues[channel]
            while queue.elements and rows < self._merge_rows_max:
                head = queue.elements[0]
                if not isinstance(head, pl.DataFrame):
                    break
                queue.elements.popleft()
                rows += head.height
                queue.rows -= head.height
                queue.bytes -= int(head.estimated_size())
                batches.append(head)
        return batches

    def _take_signals(self) -> list[Signal]:
        """Takes signals at the heads of readable channels until one of them makes the gate pass something on."""
        for channel, queue in enumerate(self._queues):
            while queue.elements and channel not in self._gate.blocked:
                head = queue.elements[0]
                if isinstance(head, pl.DataFrame):
                    break
                queue.elements.popleft()
                passed_on = self._gate.on_signal(channel, head)
                if passed_on:
                    return passed_on
        return []

    @property
    def rows_queued(self) -> int:
        """Rows that wait now, over all channels."""
        with self._lock:
            return sum(queue.rows for queue in self._queues)

    def finish(self) -> None:
        """Everything is committed and nothing more will come: `take` gives nothing from here on. Idempotent."""
        with self._lock:
            self._finished = True
            self._filled.notify_all()

    def cancel(self) -> None:
        """Wakes everyone who waits here with Cancelled. Idempotent."""
        with self._lock:
            self._cancelled = True
            self._filled.notify_all()
            self._drained.notify_all()
