"""The loop of one source subtask: poll, decode, add event time, pass down the chain; execute commands between polls.

        ┌──────────────> commands: assign, trigger, relay, limit, complete, stop, finish
        │                      │
    poll reader ──> ingest ──> event time ──> chain          (rows, then at most every 100 ms the watermark)
        │
        └── every split finished, and no more will come ──> Watermark(+inf), EndOfInput
                                                            then only commands, until Finish

The rules of event time are in `worker.task.source_progress`, the decoding of messages is in `worker.task.ingest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import assert_never

from headrace.connect.source import MessageBatch, Polled, RowBatch, SplitId
from headrace.core.clock import Clock
from headrace.core.reporting import reporting
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Watermark
from headrace.core.source_state import AppliedFloor, SplitState
from headrace.exchange.mailbox import TaskCancelledError
from headrace.exchange.stopwatch import Stopwatch
from headrace.plan.physical import SourceSpec
from headrace.rpc.figures import FirstRows
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.control import (
    Assign,
    AssignedSplit,
    Command,
    Complete,
    Finish,
    InTurn,
    Limit,
    PartitionStatus,
    Relay,
    SourceStatus,
    StopReading,
    Trigger,
)
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.read_ahead import ReadAhead
from headrace.worker.task.source_progress import SourceProgress

PARTITIONS_INTERVAL_MS = 500
"""The least time between two looks at all partitions for `partitions`."""
SNAPSHOTS_MAX = 64
"""The positions of at most this many epochs are kept until the epoch is committed."""
QUIET_AFTER_MS = 100
"""A source is quiet when no row has arrived for this time."""


@dataclass(frozen=True, slots=True)
class SourceTiming:
    """How long a poll may wait, and how often a watermark is emitted.

    quiet_poll_ms   instead of `poll_ms` while the source is quiet. A poll returns when rows arrive, so only commands
                    wait longer, and the loop of an idle source wakes 50 times a second instead of 200 times.
    """

    poll_ms: int = 5
    watermark_interval_ms: int = 100
    quiet_poll_ms: int = 20


class _Phase(Enum):
    """The phase of a source subtask: what it may still emit.

    READING   rows, watermarks, barriers
    ENDED     EndOfInput was emitted: only barriers follow
    STOPPED   the barrier of a stop was emitted: only the barrier of another attempt to stop follows
    """

    READING = auto()
    ENDED = auto()
    STOPPED = auto()


class SourceTask:
    """One subtask of a source. `run` belongs to one thread; `tell`, `cancel` and `status` may be called by others."""

    def __init__(
        self,
        spec: SourceSpec,
        *,
        reader: ReadAhead,
        ingest: Ingest,
        time: SourceProgress,
        clock: Clock,
        timing: SourceTiming,
        snapshots: SubtaskSnapshots | None = None,
        hand_over: bool = False,
    ) -> None:
        """`snapshots` receives barriers and the end of input. `hand_over`: the end of input closes no window."""
        self._spec = spec
        self._reader = reader
        self._ingest = ingest
        self._time = time
        self._clock = clock
        self._timing = timing
        self.waited = Stopwatch()
        """Time spent in polls. Other threads may read it."""
        self.batches = 0
        """Batches that were read so far. Other threads may read it."""
        self._snapshots = snapshots
        self._hand_over = hand_over
        self._commands: SimpleQueue[InTurn | None] = SimpleQueue()
        self._cancelled = False
        self._cut_short = False
        self._phase = _Phase.READING
        self._assigned = False
        self._final = False
        self._left = False
        self._relayed: int | None = None
        self._limit: int | None = None
        self._paused: frozenset[SplitId] = frozenset()
        self._positions: dict[SplitId, int] = {}
        self._finished: set[SplitId] = set()
        self._finished_before: set[SplitId] = set()
        self._at_end: set[SplitId] = set()
        self._last_row_ms: dict[SplitId, int] = {}
        self._polled_ms = 0
        self._quiet_from_ms = clock.monotonic_ms() + QUIET_AFTER_MS
        self._published: dict[int, dict[SplitId, int]] = {}
        self._lag: Mapping[SplitId, int] = {}
        self._watermark = TIME_MIN
        self._watermark_due_ms = 0
        self._status = SourceStatus(active_height=TIME_MIN, reached=None, has_splits=True, watermark=TIME_MIN, lag=0)
        self._partitions: tuple[PartitionStatus, ...] = ()
        self._partitions_due_ms = 0
        self._idle_after_ms = spec.time.idle_after_ms if spec.time is not None else None
        self._max_drift_ms = spec.time.max_drift_ms if spec.time is not None else None

    def tell(self, command: Command) -> None:
        """Passes a command to the loop; a loop that has ended ignores it. Called by any thread, never blocks.

        Only the latest Relay and the latest Limit count, so they replace each other and do not fill the queue while
        the loop is blocked by backpressure.
        """
        match command:
            case Relay(height):
                self._relayed = height
            case Limit(ts):
                self._limit = ts
            case _:
                if not self._left:
                    self._commands.put(command)

    def cancel(self) -> None:
        """Ends the loop with TaskCancelledError. Called by any thread."""
        self._cancelled = True
        self._commands.put(None)  # wakes a loop that waits for a command

    def status(self) -> SourceStatus:
        """The status as of the last watermark interval. Called by any thread."""
        return self._status

    def partitions(self) -> tuple[PartitionStatus, ...]:
        """The partitions as of at most `PARTITIONS_INTERVAL_MS` ago while the loop polls. Called by any thread."""
        return self._partitions

    @property
    def first_rows(self) -> FirstRows:
        """What its first rows look like. Called by any thread."""
        return self._ingest.first.figures

    def applied_floors(self) -> list[AppliedFloor]:
        """The floors that have taken effect so far."""
        return list(self._time.applied)

    def _publish_status(self) -> None:
        self._status = SourceStatus(
            active_height=self._time.active_height(),
            reached=self._time.reached(),
            has_splits=bool(self._positions),
            watermark=self._watermark,
            lag=sum(self._lag.values()),
        )

    def _publish_partitions(self) -> None:
        lag, position, now_ms = self._lag, self._positions, self._clock.monotonic_ms()
        self._partitions = tuple(
            PartitionStatus(
                split, position[split], lag.get(split), watermark, idle, max(now_ms - self._last_row_ms[split], 0)
            )
            for split, watermark, idle in self._time.own_watermarks()
        )

    def run(self) -> None:
        """Reads until every split has ended or `StopReading` comes, then emits barriers until `Finish`.

        Raises TaskCancelledError after `cancel`.
        """
        while not self._left:
            if self._cancelled:
                raise TaskCancelledError
            self._obey()
            if self._phase is _Phase.READING and not self._left:
                if self._all_read():
                    self._end(closes=not self._hand_over)
                else:
                    self._step()

    def leave(self) -> None:
        """Waits until the reader's last poll has ended and nobody uses the reader any more. Called after `run`, also
        if that raised."""
        self._reader.end()

    @property
    def done(self) -> bool:
        """Whether the subtask has read its last row and sent EndOfInput down its chain."""
        return self._phase is _Phase.ENDED

    @property
    def cut_short(self) -> bool:
        """Whether `StopReading` came before all splits were read to their end."""
        return self._cut_short

    def _all_read(self) -> bool:
        return self._final and len(self._finished) == len(self._positions)

    def _end(self, *, closes: bool) -> None:
        """Ends the input. `closes`: Watermark(+inf) is emitted before EndOfInput, which closes all windows; else time
        stands where the rows have put it."""
        self._publish_status()
        self._publish_partitions()
        if closes:
            self._close_time()
        else:
            self._emit_watermark(last=True)
        self._phase = _Phase.ENDED
        self._ingest.on_signal(EndOfInput())
        if self._snapshots is not None:
            self._snapshots.input_ended()

    def _close_time(self) -> None:
        if self._spec.time is not None and self._watermark < TIME_MAX:
            self._watermark = TIME_MAX
            self._ingest.on_signal(Watermark(TIME_MAX))

    def _obey(self) -> None:
        """Executes the queued commands in order. Waits for a command where the reader has nothing to read."""
        while True:
            try:
                command = self._next_command()
            except Empty:
                return
            if command is not None:
                self._on_command(command)
            if self._cancelled or self._left or (self._phase is _Phase.READING and self._all_read()):
                return

    def _next_command(self) -> InTurn | None:
        if self._phase is not _Phase.READING:
            return self._commands.get()
        if self._finished.issuperset(self._positions):
            # no split to poll, but a relayed height may still move the watermark: waits no longer than a poll would
            return self._commands.get(timeout=self._poll_ms() / 1000)
        return self._commands.get_nowait()

    def _on_command(self, command: InTurn) -> None:
        match command:
            case Assign(splits, final, emitted):
                self._assigned, self._final = True, final
                self._assign(splits, emitted)
            case Trigger(epoch, stop, drain):
                self._trigger(epoch, stop=stop, drain=drain)
            case Complete(epoch):
                positions = self._published.pop(epoch, None)
                if positions is not None:
                    self._reader.commit(positions)
            case StopReading():
                if self._phase is _Phase.READING:
                    self._cut_short = True
                    self._end(closes=False)
            case Finish():
                self._left = True
            case _:
                assert_never(command)

    def _assign(self, assigned: Sequence[AssignedSplit], emitted: int | None) -> None:
        """Adds splits. A split that the checkpoint has as finished is not read again, unless its stop has moved on."""
        unread = []
        for each in assigned:
            split, state = each.split, _still_true(each)
            self._positions[split.id] = split.start
            self._last_row_ms[split.id] = self._clock.monotonic_ms()
            self._time.add(split.id, split.start, state, emitted)
            if state is not None and state.finished:
                self._finished.add(split.id)
                self._finished_before.add(split.id)
            else:
                unread.append(split)
        if unread:
            self._reader.assign(unread)

    def _trigger(self, epoch: int, *, stop: bool, drain: bool) -> None:
        if self._phase is _Phase.READING:
            if drain:
                self._close_time()
            else:
                # what is emitted up to a barrier depends on the rows before it, not on when the last interval ended
                self._emit_watermark(last=stop)
        if self._snapshots is not None:
            self._reader.confirm()
            self._snapshots.add_source(self._spec.node, self._time.snapshot())
        # a split that was finished before this attempt was never assigned to the reader, which could not commit it
        read = {split: at for split, at in self._positions.items() if split not in self._finished_before}
        self._published[epoch] = read
        # an aborted epoch gets no Complete: its positions are dropped here
        while len(self._published) > SNAPSHOTS_MAX:
            del self._published[min(self._published)]
        self._ingest.on_signal(Barrier(epoch))
        if self._snapshots is not None:
            self._snapshots.complete(epoch)
        if stop and self._phase is _Phase.READING:
            self._phase = _Phase.STOPPED

    def _step(self) -> None:
        self._align()
        if not self._finished.issuperset(self._positions):
            with self.waited.running():
                reading = self._reader.poll(self._poll_ms())
            polled, self._polled_ms = reading.polled, reading.ended_ms
            if polled.batch is not None and len(polled.batch):
                self._take(polled.batch)
            self._note(polled)
        # Before the first assignment the splits are not known: a relayed height may be ahead of their rows, and a
        # status without splits would let the other subtasks pass them.
        if self._assigned and self._clock.monotonic_ms() >= self._watermark_due_ms:
            self._mark_idle()
            self._emit_watermark()
            self._publish_status()
            now_ms = self._clock.monotonic_ms()
            self._watermark_due_ms = now_ms + self._timing.watermark_interval_ms
            if now_ms >= self._partitions_due_ms:
                self._publish_partitions()
                self._partitions_due_ms = now_ms + PARTITIONS_INTERVAL_MS

    def _poll_ms(self) -> int:
        timing = self._timing
        # a paused partition resumes between two polls: its rows must not wait for a long one
        if self._paused or self._clock.monotonic_ms() < self._quiet_from_ms:
            return timing.poll_ms
        return max(timing.poll_ms, timing.quiet_poll_ms)

    def _align(self) -> None:
        """Pauses partitions whose event time is past the limit, and resumes those that are well below it again.

        The margin of a tenth of the allowed drift keeps a partition from pausing and resuming with every batch.
        """
        limit = self._limit
        if limit is None and not self._paused:
            return
        ahead = frozenset[SplitId]() if limit is None else self._time.past(limit)
        margin_ms = (self._max_drift_ms or 0) // 10
        behind = self._paused if limit is None else self._paused - self._time.past(limit - margin_ms)
        if behind:
            self._reader.resume(sorted(behind))
            # a paused partition could not return rows: its time until it counts as idle begins again
            now_ms = self._clock.monotonic_ms()
            self._last_row_ms.update(dict.fromkeys(behind, now_ms))
        if fresh := ahead - self._paused:
            self._reader.pause(sorted(fresh))
        self._paused = (self._paused - behind) | ahead

    def _take(self, batch: MessageBatch | RowBatch) -> None:
        for run in batch.runs:
            self._last_row_ms[run.split] = self._polled_ms
            self._at_end.discard(run.split)
        self._quiet_from_ms = self._polled_ms + QUIET_AFTER_MS
        self.batches += 1
        self._ingest.on_batch(batch)

    def _note(self, polled: Polled) -> None:
        if polled.positions:
            self._positions.update(polled.positions)
            self._time.moved(polled.positions)
        if polled.remarks:
            with reporting("remarks of the reader"):
                self._ingest.first.remark(polled.remarks)
        self._at_end |= polled.at_end
        if polled.finished:
            self._finished |= polled.finished
            self._time.finish(polled.finished)
        if polled.lag:
            self._lag = polled.lag
            # The partition has grown since it reached its end: the new messages are queued in the client behind those
            # of other partitions. It is not idle, though no row of it arrives.
            self._at_end -= {split for split, lag in polled.lag.items() if lag > 0}

    def _mark_idle(self) -> None:
        if self._idle_after_ms is None:
            return
        # by the time of the poll, not by now: rows may have arrived since, in a poll ahead or while the chain worked
        before_ms = self._polled_ms - self._idle_after_ms
        idle = [split for split in self._at_end - self._paused if self._last_row_ms[split] <= before_ms]
        self._time.set_idle(idle)

    def _emit_watermark(self, *, last: bool = False) -> None:
        """Emits the watermark if it has grown. `last`: no row follows in this attempt."""
        if self._spec.time is None or not self._assigned:
            return
        ts = self._time.settle(self._relayed) if last else self._time.advance(self._relayed)
        if ts is not None and ts > self._watermark:
            self._watermark = ts
            self._ingest.on_signal(Watermark(ts))


def _still_true(assigned: AssignedSplit) -> SplitState | None:
    """The state of a split in the checkpoint. A split whose stop has moved past its position counts as unfinished."""
    split, state = assigned.split, assigned.state
    if state is not None and state.finished and split.stop is not None and split.stop > split.start:
        return replace(state, finished=False)
    return state
