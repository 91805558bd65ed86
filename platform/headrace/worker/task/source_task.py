"""The loop of one source subtask: poll, decode, add event time, pass down the chain; execute commands between polls.

        ┌──────────────> commands: assign, trigger, relay, limit, complete, stop, finish
        │                      │
    poll reader ──> ingest ──> event time ──> chain          (rows, then at most every 100 ms the watermark)
        │
        └── every split finished, and no more will come ──> Watermark(+inf), EndOfInput
                                                            then only commands, until Finish

A batch whose schemas the decoder does not know yet is parked: nothing is polled until the decoder takes it, while
commands and barriers pass.

The rules of event time are in `worker.task.source_progress`, those of splits, idleness and pauses in
`worker.task.split_table`; the decoding of messages is in `worker.task.ingest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import assert_never

from headrace.connect.format import UnknownIds
from headrace.connect.source import SplitId
from headrace.core.clock import Clock
from headrace.core.reporting import reporting
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Watermark
from headrace.core.source_state import AppliedFloor
from headrace.exchange.mailbox import TaskCancelledError
from headrace.exchange.stopwatch import Stopwatch
from headrace.plan.physical import SourceSpec
from headrace.rpc.figures import FirstRows
from headrace.worker import control
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.ingest import Ingest
from headrace.worker.task.read_ahead import ReadAhead, Reading
from headrace.worker.task.source_progress import SourceProgress
from headrace.worker.task.split_table import IdleRule, PauseRule, Pauses, SplitTable

PARTITIONS_INTERVAL_MS = 500
"""The least time between two updates of `partitions`."""


@dataclass(frozen=True, slots=True)
class SourceTiming:
    """How long a poll may wait, and how often a watermark is emitted.

    quiet_poll_ms   instead of `poll_ms` while the source is quiet. A poll returns when rows arrive, so only commands
                    wait longer, and the loop of an idle source wakes 50 times a second instead of 200 times.
    """

    poll_ms: int = 5
    watermark_interval_ms: int = 100
    quiet_poll_ms: int = 20


RETRY_FIRST_MS = 10
RETRY_MAX_MS = 1_000
"""Time between two offers: it doubles from the first to the greatest."""


@dataclass(frozen=True, slots=True)
class ParkedBatch:
    """A polled batch whose schemas the decoder does not know yet. It is offered again, and meanwhile nothing of it has
    happened: a barrier has the positions before it.

    on         what is waited for, as users see it
    since_ms   when it was polled (epoch ms)
    due_ms     when it is offered again (monotonic ms); delay_ms: the time between this offer and the one before
    """

    reading: Reading
    on: str
    since_ms: int
    due_ms: int
    delay_ms: int

    @property
    def splits(self) -> frozenset[SplitId]:
        """The splits that have rows in it."""
        batch = self.reading.polled.batch
        assert batch is not None, "a batch without rows is not decoded"
        return frozenset(run.split for run in batch.runs)


def parked(
    reading: Reading, unknown: UnknownIds, before: ParkedBatch | None, *, now_ms: int, monotonic_ms: int
) -> ParkedBatch:
    """Parks a batch, or parks it again. before: the batch as it was offered; None: it has just been polled."""
    delay_ms = RETRY_FIRST_MS if before is None else min(2 * before.delay_ms, RETRY_MAX_MS)
    since_ms = now_ms if before is None else before.since_ms
    return ParkedBatch(reading, unknown.on, since_ms, monotonic_ms + delay_ms, delay_ms)


class _Phase(Enum):
    """The phase of a source subtask: what it may still emit.

    READING   rows, watermarks, barriers
    ENDED     EndOfInput was emitted: only barriers follow
    STOPPED   the barrier of a stop was emitted: only the barrier of another attempt to stop follows
    """

    READING = auto()
    ENDED = auto()
    STOPPED = auto()


class _Inbox:
    """Commands from other threads to the loop."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[control.InTurn | None] = SimpleQueue()
        """Commands in turn. None only wakes a loop that waits."""
        self.relayed: int | None = None
        self.limit: int | None = None
        self.cancelled = False
        self.closed = False
        """Whether the loop has ended: later commands are dropped."""

    def put(self, command: control.Command) -> None:
        """Adds a command. Only the latest Relay and the latest Limit count, so they do not fill the queue while the
        loop is blocked by backpressure."""
        match command:
            case control.Relay(height):
                self.relayed = height
            case control.Limit(ts):
                self.limit = ts
            case _:
                if not self.closed:
                    self.queue.put(command)

    def cancel(self) -> None:
        """Cancels the loop, also one that waits for a command."""
        self.cancelled = True
        self.queue.put(None)


class _Reports:
    """The status of the subtask and of its partitions, for other threads: tuples that the loop replaces."""

    def __init__(self, time: SourceProgress, splits: SplitTable, idle: IdleRule) -> None:
        self.status = control.SourceStatus(
            active_height=TIME_MIN, reached=None, has_splits=True, watermark=TIME_MIN, lag=0
        )
        self.partitions: tuple[control.PartitionStatus, ...] = ()
        self._time = time
        self._splits = splits
        self._idle = idle
        self._partitions_due_ms = 0

    def publish(self, watermark: int, now_ms: int, waiting: ParkedBatch | None, *, last: bool = False) -> None:
        """Replaces the status, and the partitions once every `PARTITIONS_INTERVAL_MS`, or if it is the `last` time."""
        splits = self._splits
        self.status = control.SourceStatus(
            active_height=self._time.active_height(),
            reached=self._time.reached(),
            has_splits=bool(splits.positions),
            watermark=watermark,
            lag=sum(splits.lag.values()),
            waits=None if waiting is None else control.SourceWait(waiting.on, waiting.since_ms),
        )
        if last or now_ms >= self._partitions_due_ms:
            self._partitions_due_ms = now_ms + PARTITIONS_INTERVAL_MS
            self.partitions = tuple(
                control.PartitionStatus(
                    split,
                    splits.positions[split],
                    splits.lag.get(split),
                    own,
                    is_idle,
                    self._idle.without_rows_ms(split, now_ms),
                )
                for split, own, is_idle in self._time.own_watermarks()
            )


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
        self._inbox = _Inbox()
        self._phase = _Phase.READING
        self._cut_short = False
        self._splits = SplitTable()
        self._idle = IdleRule(spec.time.idle_after_ms if spec.time is not None else None, clock.monotonic_ms())
        self._pauses = PauseRule(spec.time.max_drift_ms if spec.time is not None else None)
        self._reports = _Reports(time, self._splits, self._idle)
        self._watermark = TIME_MIN
        self._watermark_due_ms = 0
        self._parked: ParkedBatch | None = None

    def tell(self, command: control.Command) -> None:
        """Passes a command to the loop; a loop that has ended ignores it. Called by any thread, never blocks."""
        self._inbox.put(command)

    def cancel(self) -> None:
        """Ends the loop with TaskCancelledError. Called by any thread."""
        self._inbox.cancel()

    def status(self) -> control.SourceStatus:
        """The status as of the last watermark interval. Called by any thread."""
        return self._reports.status

    def partitions(self) -> tuple[control.PartitionStatus, ...]:
        """The partitions as of at most `PARTITIONS_INTERVAL_MS` ago while the loop polls. Called by any thread."""
        return self._reports.partitions

    @property
    def first_rows(self) -> FirstRows:
        """What its first rows look like. Called by any thread."""
        return self._ingest.first.figures

    def applied_floors(self) -> list[AppliedFloor]:
        """The floors that have taken effect so far."""
        return list(self._time.applied)

    def run(self) -> None:
        """Reads until every split has ended or `StopReading` comes, then emits barriers until `Finish`.

        Raises TaskCancelledError after `cancel`.
        """
        inbox = self._inbox
        while not inbox.closed:
            if inbox.cancelled:
                raise TaskCancelledError
            self._execute_commands()
            if self._phase is _Phase.READING and not inbox.closed:
                if self._splits.all_read:
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

    def _end(self, *, closes: bool) -> None:
        """Ends the input. `closes`: Watermark(+inf) is emitted before EndOfInput, which closes all windows; else time
        stands where the rows have put it."""
        self._parked = None
        self._reports.publish(self._watermark, self._clock.monotonic_ms(), None, last=True)
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

    def _execute_commands(self) -> None:
        """Executes the queued commands in order. Waits for a command where the reader has nothing to read."""
        inbox = self._inbox
        while True:
            try:
                command = self._next_command()
            except Empty:
                return
            if command is not None:
                self._execute(command)
            if inbox.cancelled or inbox.closed or (self._phase is _Phase.READING and self._splits.all_read):
                return

    def _next_command(self) -> control.InTurn | None:
        if self._phase is not _Phase.READING:
            return self._inbox.queue.get()
        if not self._splits.unread:
            # no split to poll, but a relayed height may still move the watermark: waits no longer than a poll would
            return self._inbox.queue.get(timeout=self._poll_ms() / 1000)
        if self._parked is not None:
            with self.waited.running():
                return self._inbox.queue.get(timeout=self._poll_ms() / 1000)
        return self._inbox.queue.get_nowait()

    def _execute(self, command: control.InTurn) -> None:
        match command:
            case control.Assign():
                self._assign(command)
            case control.Trigger(epoch, stop, drain):
                self._trigger(epoch, stop=stop, drain=drain)
            case control.Complete(epoch):
                positions = self._splits.committed(epoch)
                if positions is not None:
                    self._reader.commit(positions)
            case control.StopReading():
                if self._phase is _Phase.READING:
                    self._cut_short = True
                    self._end(closes=False)
            case control.Finish():
                self._inbox.closed = True
            case _:
                assert_never(command)

    def _assign(self, command: control.Assign) -> None:
        added = self._splits.assign(command)
        self._idle.restart([item.split.id for item in added], self._clock.monotonic_ms())
        for item in added:
            self._time.add(item.split.id, item.split.start, item.state, command.emitted)
        unread = [item.split for item in added if item.split.id in self._splits.unread]
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
        self._splits.at_barrier(epoch)
        self._ingest.on_signal(Barrier(epoch))
        if self._snapshots is not None:
            self._snapshots.complete(epoch)
        if stop and self._phase is _Phase.READING:
            self._phase = _Phase.STOPPED
            self._parked = None

    def _step(self) -> None:
        limit = self._inbox.limit
        if limit is not None or self._pauses.paused:
            pauses = self._pauses.align(limit, self._time.past)
            if pauses is not None:
                self._apply(pauses)
        if self._parked is not None:
            self._offer_again(self._parked)
        elif self._splits.unread:
            self._poll()
        # Before the first assignment the splits are not known: a relayed height may be ahead of their rows, and a
        # status without splits would let the other subtasks pass them.
        if self._splits.assigned and self._clock.monotonic_ms() >= self._watermark_due_ms:
            waiting = frozenset[SplitId]() if self._parked is None else self._parked.splits
            self._time.set_idle(self._idle.idle(self._pauses.paused | waiting))
            self._emit_watermark()
            now_ms = self._clock.monotonic_ms()
            self._reports.publish(self._watermark, now_ms, self._parked)
            self._watermark_due_ms = now_ms + self._timing.watermark_interval_ms

    def _apply(self, pauses: Pauses) -> None:
        if pauses.resume:
            self._reader.resume(pauses.resume)
            # a paused partition could not return rows: its time until it counts as idle begins again
            self._idle.restart(pauses.resume, self._clock.monotonic_ms())
        if pauses.pause:
            self._reader.pause(pauses.pause)

    def _poll(self) -> None:
        with self.waited.running():
            reading = self._reader.poll(self._poll_ms())
        self._take(reading, None)

    def _offer_again(self, waiting: ParkedBatch) -> None:
        if self._clock.monotonic_ms() >= waiting.due_ms:
            self._parked = None
            self._take(waiting.reading, waiting)

    def _take(self, reading: Reading, before: ParkedBatch | None) -> None:
        """Passes the rows of a poll down the chain, then adds its positions and ends; or parks it. before: it was
        parked."""
        polled = reading.polled
        has_rows = polled.batch is not None and len(polled.batch) > 0
        if polled.batch is not None and has_rows:
            unknown = self._ingest.on_batch(polled.batch)
            if unknown is not None:
                now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
                self._parked = parked(reading, unknown, before, now_ms=now_ms, monotonic_ms=monotonic_ms)
                return
            self.batches += 1
        self._idle.polled(polled, reading.ended_ms, has_rows=has_rows)
        self._splits.polled(polled)
        if polled.positions:
            self._time.moved(polled.positions)
        if polled.finished:
            self._time.finish(polled.finished)
        if polled.remarks:
            with reporting("remarks of the reader"):
                self._ingest.first.remark(polled.remarks)

    def _poll_ms(self) -> int:
        timing = self._timing
        # a paused partition resumes between two polls: its rows must not wait for a long one
        if self._pauses.paused or self._clock.monotonic_ms() < self._idle.quiet_from_ms:
            return timing.poll_ms
        return max(timing.poll_ms, timing.quiet_poll_ms)

    def _emit_watermark(self, *, last: bool = False) -> None:
        """Emits the watermark if it has grown. `last`: no row follows in this attempt."""
        if self._spec.time is None or not self._splits.assigned:
            return
        relayed = self._inbox.relayed
        ts = self._time.settle(relayed) if last else self._time.advance(relayed)
        if ts is not None and ts > self._watermark:
            self._watermark = ts
            self._ingest.on_signal(Watermark(ts))
