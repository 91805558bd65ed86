"""The bounded mailbox of a subtask: several producers, one consumer, a bound in rows and bytes for each channel.

A full channel blocks its producer: that is the backpressure. A signal is queued even if the channel is full. The gate
decides which channels may be read and which signals pass; `adaptive_bounds` decides the capacity; this shell only
stores elements and waits.

A channel belongs to one numbered input of the subtask. Signals are of all inputs, a batch is of one: rows of different
inputs are never merged.

The sender of a channel may be in another process. It then keeps within the bounds that each credit carries
(`feed_remotely`), and `put` never waits.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.core.batch import concat_batches
from headrace.core.signals import Barrier, Element, Signal, Watermark
from headrace.exchange.edge.adaptive_bounds import AdaptiveBounds, ChannelBounds
from headrace.exchange.edge.gate import Gate
from headrace.exchange.stopwatch import Stopwatch

__all__ = ["TaskCancelledError", "ChannelBounds", "Mailbox", "OnDrained"]

OnDrained = Callable[[int, int, ChannelBounds], None]
"""Called after rows of a remote channel were taken, with rows, bytes, and the bounds from now on."""


class TaskCancelledError(Exception):
    """The attempt is being torn down: the thread leaves its loop and discards everything."""


@dataclass(slots=True)
class _Queue:
    """One channel of an input: elements with their size in bytes, which is 0 for a signal."""

    channel: int
    input: int
    bounds: AdaptiveBounds
    elements: deque[tuple[Element, int]] = field(default_factory=deque)
    rows: int = 0
    bytes: int = 0
    waited: Stopwatch = field(default_factory=Stopwatch)
    on_drained: OnDrained | None = None

    @property
    def has_room(self) -> bool:
        return self.bounds.current.has_room(self.rows, self.bytes)

    def append(self, element: Element, size: int) -> None:
        if isinstance(element, pl.DataFrame):
            self.rows += element.height
            self.bytes += size
        elif isinstance(element, Watermark) and self.elements and isinstance(self.elements[-1][0], Watermark):
            # no row lies between consecutive watermarks, so the newer one replaces the older one
            self.elements.pop()
        self.elements.append((element, size))

    def pop(self) -> None:
        element, size = self.elements.popleft()
        if isinstance(element, pl.DataFrame):
            self.rows -= element.height
            self.bytes -= size


@dataclass(frozen=True, slots=True)
class _Served:
    """The rows of one `take` from one channel."""

    channel: int
    rows: int
    bytes: int


class Mailbox:
    """The input queues of one subtask. Producers call `put`, the subtask's thread calls `take`."""

    def __init__(
        self, inputs: Sequence[int], bounds: ChannelBounds, *, merge_rows_max: int, aligned: bool = True
    ) -> None:
        """`inputs`: for each channel, the number of the input that it belongs to."""
        self._gate = Gate(len(inputs), aligned=aligned)
        self._queues = [_Queue(channel, number, AdaptiveBounds(bounds)) for channel, number in enumerate(inputs)]
        self._several = len(set(inputs)) > 1
        self._filled_channels: set[int] = set()
        """Channels that are not empty: `take` scans only these, because a subtask may have many channels."""
        self._rows = 0
        self._merge_rows_max = merge_rows_max
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._cancelled = False
        self._woken = False
        self._turn = 0
        self._rows_last = False
        self._served: list[_Served] = []
        self._given_at_s = 0.0
        self._aligning: tuple[int, float] = (-1, 0.0)
        """The epoch that is aligned, and when its first barrier arrived (monotonic, in s)."""
        self.aligned_ms = 0
        """How long the gate aligned the last barrier that it passed on, in ms. Read by the subtask's thread."""
        self.input_taken = 0
        """Number of the input of the batch that `take` returned last. Read by the subtask's thread."""
        self.bytes_taken = 0
        """Bytes of all rows that the subtask has taken so far, as their senders count them."""
        self.rows_queued_max = 0
        """Greatest number of queued rows so far, over all channels: for tests and metrics."""

    # ---- producers ---------------------------------------------------------------------------------------------------

    def feed_remotely(self, channel: int, on_drained: OnDrained) -> ChannelBounds:
        """Declares that the channel's sender is in another process. From now on `put` never waits on this channel, and
        the subtask's thread calls `on_drained`, without the lock, after it has taken rows. Returns the initial
        bounds."""
        with self._lock:
            queue = self._queues[channel]
            assert queue.on_drained is None, f"channel {channel} is fed twice"
            queue.on_drained = on_drained
            return queue.bounds.current

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self._queues)

    def put(self, channel: int, element: Element, size: int | None = None) -> None:
        """Appends an element. A batch waits while the channel is full; one that exceeds the bounds is appended in
        pieces.

        size  the batch's bytes as its remote sender counts them; default: polars' estimate

        Raises TaskCancelledError once the attempt is torn down.
        """
        queue = self._queues[channel]
        if not isinstance(element, pl.DataFrame):
            with self._lock:
                self._append(queue, element, 0)
            return
        if size is None:
            size = int(element.estimated_size())
        if queue.on_drained is not None:
            with self._lock:
                self._append(queue, element, size)
            return
        rows = element.height
        while True:
            with self._lock:
                if not queue.has_room:
                    self._wait_for_room(queue)
                height = queue.bounds.current.piece_rows(rows, size)
                if height >= element.height:
                    self._append(queue, element, size * element.height // max(rows, 1))
                    return
                self._append(queue, element.slice(0, height), size * height // rows)
            element = element.slice(height)

    def _wait_for_room(self, queue: _Queue) -> None:
        with queue.waited.running():
            while not self._cancelled and not queue.has_room:
                self._drained.wait()

    def _append(self, queue: _Queue, element: Element, size: int) -> None:
        if self._cancelled:
            raise TaskCancelledError
        rows_before = queue.rows
        queue.append(element, size)
        self._filled_channels.add(queue.channel)
        self._rows += queue.rows - rows_before
        self.rows_queued_max = max(self.rows_queued_max, self._rows)
        self._filled.notify()

    # ---- the consumer ------------------------------------------------------------------------------------------------

    def take(self) -> list[Element]:
        """Waits for input and returns it in order: one batch, merged from queued ones of one input (`input_taken`), or
        the signals that the gate passes on. Returns an empty list after `wake`, if there is no input.

        Rows and signals alternate, and channels take turns, so that none starves. Raises TaskCancelledError once the
        attempt is torn down.
        """
        with self._lock:
            self._observe_service()
            while True:
                if self._cancelled:
                    raise TaskCancelledError
                # fairness: after rows, signals go first; without it a fast producer of either kind would starve the
                # other
                signals = self._take_signals() if self._rows_last else []
                batches = [] if signals else self._take_batches()
                # If the last call returned signals, only rows were tried above, and there are none. Signals that the
                # gate absorbs expose the rows behind them, so rows are tried again after signals.
                if not batches and not signals:
                    signals = self._take_signals()
                    batches = [] if signals else self._take_batches()
                self._rows_last = bool(batches)
                if batches:
                    self._drained.notify_all()
                    break
                if signals:
                    return list(signals)
                # `wake` has an effect only when there is no input to process
                if self._woken:
                    self._woken = False
                    return []
                self._filled.wait()
            reports = [
                (on_drained, served, queue.bounds.current)
                for served in self._served
                if (on_drained := (queue := self._queues[served.channel]).on_drained) is not None
            ]
        for on_drained, served, bounds in reports:
            on_drained(served.rows, served.bytes, bounds)
        self._given_at_s = time.monotonic()
        return [concat_batches(batches)]

    def _observe_service(self) -> None:
        """Measures the reader's rate. The reader was busy with the rows of its last `take` until now."""
        if not self._served:
            return
        busy_s = time.monotonic() - self._given_at_s
        changed = False
        for served in self._served:
            changed |= self._queues[served.channel].bounds.on_served(served.rows, served.bytes, busy_s)
        self._served = []
        if changed:
            self._drained.notify_all()

    def _take_batches(self) -> list[pl.DataFrame]:
        """Batches at the heads of readable channels of one input, up to the merge limit; channels take turns to be
        first, and the first one with rows decides the input."""
        batches: list[pl.DataFrame] = []
        rows, blocked = 0, self._gate.blocked
        for channel in self._in_turn():
            queue = self._queues[channel]
            if channel in blocked or (batches and queue.input != self.input_taken):
                continue
            if rows >= self._merge_rows_max:
                break
            rows_before, bytes_before = queue.rows, queue.bytes
            while queue.elements and rows < self._merge_rows_max:
                head = queue.elements[0][0]
                if not isinstance(head, pl.DataFrame):
                    break
                self._pop(queue)
                rows += head.height
                batches.append(head)
            if queue.rows < rows_before or queue.bytes < bytes_before:
                self.input_taken = queue.input
                self._served.append(_Served(channel, rows_before - queue.rows, bytes_before - queue.bytes))
                self.bytes_taken += bytes_before - queue.bytes
        if self._served:
            self._turn = (self._served[0].channel + 1) % len(self._queues)
        return batches

    def _take_signals(self) -> list[Signal]:
        """Consumes signals at the heads of readable channels until the gate passes one on."""
        for channel in self._in_turn():
            queue = self._queues[channel]
            # read anew each time: the signal before may have blocked this channel
            while queue.elements and channel not in self._gate.blocked:
                head = queue.elements[0][0]
                if isinstance(head, pl.DataFrame):
                    break
                self._pop(queue)
                passed_on = self._gate.on_signal(channel, head)
                if isinstance(head, Barrier):
                    self._note_alignment(head.epoch, passed=bool(passed_on))
                if passed_on:
                    return passed_on
        return []

    def _note_alignment(self, epoch: int, *, passed: bool) -> None:
        """Measures an alignment: from the first barrier of an epoch at the gate until the gate passes it on."""
        now_s = time.monotonic()
        # a newer epoch ends the alignment of an older one, which was aborted
        if self._aligning[0] != epoch:
            self._aligning = (epoch, now_s)
        if passed:
            self.aligned_ms = round((now_s - self._aligning[1]) * 1_000)

    def _in_turn(self) -> list[int]:
        """Non-empty channels, starting with the one whose turn it is."""
        channels = sorted(self._filled_channels)
        first = bisect.bisect_left(channels, self._turn)
        return channels[first:] + channels[:first]

    def _pop(self, queue: _Queue) -> None:
        rows_before = queue.rows
        queue.pop()
        self._rows -= rows_before - queue.rows
        if not queue.elements:
            self._filled_channels.discard(queue.channel)

    # ---- from outside ------------------------------------------------------------------------------------------------

    @property
    def rows_queued(self) -> int:
        """Rows queued now, over all channels."""
        with self._lock:
            return self._rows

    @property
    def watermark(self) -> int:
        """The last watermark that the gate passed on (epoch ms)."""
        return self._gate.watermark

    @property
    def waits_for_input(self) -> int | None:
        """Number of an input that holds time back: one of its channels has the lowest watermark. None: there is one
        input."""
        if not self._several:
            return None
        with self._lock:
            return self._queues[self._gate.lowest_channel].input

    def waited_ms(self, channel: int) -> float:
        """How long the local sender of a channel has waited for room so far, in ms."""
        return self._queues[channel].waited.ms

    def wake(self) -> None:
        """Makes `take` return an empty list once, as soon as it has no input, so that the subtask can do other work."""
        with self._lock:
            self._woken = True
            self._filled.notify_all()

    def cancel(self) -> None:
        """Makes every waiting and every later `put` and `take` raise TaskCancelledError. Idempotent."""
        with self._lock:
            self._cancelled = True
            self._filled.notify_all()
            self._drained.notify_all()
