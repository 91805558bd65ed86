"""The loop of one source subtask: poll, decode, stamp, hand down the chain; in between, do what it is told.

        ┌──────────────> commands: assign, trigger, relay, complete, stop
        │                      │
    poll reader ──> ingest ──> event time ──> chain          (rows, then at most every 100 ms the watermark)
        │
        └── every split finished, and no more will come ──> Watermark(+inf), EndOfInput

Decides nothing about time (`worker.source_time`) or about what a message means (`worker.ingest`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import assert_never

import polars as pl

from headrace.connect.source import MessageBatch, Polled, Reader, RowBatch, SplitId
from headrace.core.batch import TS, WM
from headrace.core.clock import Clock
from headrace.core.errors import DataError
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Signal, Watermark
from headrace.core.source_state import AppliedFloor
from headrace.exchange.channel import Cancelled
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError
from headrace.plan.physical import SourceSpec
from headrace.worker.control import Assign, Command, Complete, InTurn, Relay, SourceStatus, StopReading, Trigger
from headrace.worker.ingest import Ingest
from headrace.worker.source_time import SourceTime

SNAPSHOTS_MAX = 64
"""Positions of at most so many epochs are kept while their barriers are under way."""


@dataclass(frozen=True, slots=True)
class SourceTiming:
    """How long a poll may wait, and how often a watermark is emitted."""

    poll_ms: int = 5
    watermark_interval_ms: int = 100


class SourceTask:
    """One subtask of a source. `run` belongs to one thread; `tell`, `cancel` and `status` may be called by others."""

    def __init__(  # noqa: PLR0913 - the parts of a source, each with a name
        self,
        spec: SourceSpec,
        *,
        reader: Reader,
        ingest: Ingest,
        time: SourceTime,
        rows: Receiver,
        bad: Receiver,
        clock: Clock,
        timing: SourceTiming,
        counters: Counter[str],
    ) -> None:
        self._spec = spec
        self._reader = reader
        self._ingest = ingest
        self._time = time
        self._rows = rows
        self._bad = bad
        self._clock = clock
        self._timing = timing
        self.counters = counters
        self._commands: SimpleQueue[InTurn] = SimpleQueue()
        self._cancelled = False
        self._stopping = False
        self._final = False
        self._done = False
        self._published = False
        self._relayed: int | None = None
        self._positions: dict[SplitId, int] = {}
        self._finished: set[SplitId] = set()
        self._at_end: set[SplitId] = set()
        self._last_row_ms: dict[SplitId, int] = {}
        self._snapshots: dict[int, dict[SplitId, int]] = {}
        self._lag: Mapping[SplitId, int] = {}
        self._watermark = TIME_MIN
        self._watermark_due_ms = 0
        self._status = SourceStatus(active_height=TIME_MIN, has_splits=True, watermark=TIME_MIN, lag=0)
        idle_after = spec.time.idle_after_ms if spec.time is not None else None
        self._idle_after_ms = idle_after

    def tell(self, command: Command) -> None:
        """Hands a command to the loop, unless it has ended. A loop that is held up piles up no heights."""
        if isinstance(command, Relay):
            self._relayed = command.height
        elif not self._done:
            self._commands.put(command)

    def cancel(self) -> None:
        """Makes the loop leave with Cancelled."""
        self._cancelled = True

    def status(self) -> SourceStatus:
        """How the subtask stood a moment ago."""
        return self._status

    def applied_floors(self) -> list[AppliedFloor]:
        """Floors that took effect so far."""
        return list(self._time.applied)

    def _publish_status(self) -> None:
        self._status = SourceStatus(
            active_height=self._time.active_height(),
            has_splits=bool(self._positions),
            watermark=self._watermark,
            lag=sum(self._lag.values()),
        )

    def run(self) -> None:
        """Reads until the end, `StopReading` or `cancel`."""
        while not self._ended():
            if self._cancelled:
                raise Cancelled
            self._obey()
            if self._stopping:
                break
            self._step()
        self._publish_status()
        if not self._stopping and self._spec.time is not None:
            self._signal(Watermark(TIME_MAX))
        self._signal(EndOfInput())
        self._done = True

    @property
    def done(self) -> bool:
        """Whether it has read its last row and said so to everyone below."""
        return self._done

    @property
    def cut_short(self) -> bool:
        """Whether it was told to stop before its splits were read to their end."""
        return self._stopping

    def _ended(self) -> bool:
        return self._final and len(self._finished) == len(self._positions)

    def commit_final(self) -> None:
        """Publishes the last positions, once: called after the end, when everything that was read is durable."""
        if not self._published:
            self._published = True
            self._reader.commit(self._positions)

    def _obey(self) -> None:
        while True:
            try:
                # nothing assigned yet: wait for a command instead of polling an empty reader
                wait_s = None if self._positions else self._timing.poll_ms / 1000
                command = self._commands.get(timeout=wait_s) if wait_s else self._commands.get_nowait()
            except Empty:
                return
            self._on_command(command)
            if self._stopping or self._ended():
                return

    def _on_command(self, command: InTurn) -> None:
        match command:
            case Assign(splits, final):
                self._final = final
                for split in splits:
                    self._positions[split.id] = split.start
                    self._last_row_ms[split.id] = self._clock.monotonic_ms()
                    self._time.add(split.id, split.start)
                self._reader.assign(splits)
            case Trigger(epoch):
                self._snapshots[epoch] = dict(self._positions)
                while len(self._snapshots) > SNAPSHOTS_MAX:
                    del self._snapshots[min(self._snapshots)]
                self._signal(Barrier(epoch))
            case Complete(epoch):
                positions = self._snapshots.pop(epoch, None)
                if positions is not None:
                    self._reader.commit(positions)
            case StopReading():
                self._stopping = True
            case _:
                assert_never(command)

    def _step(self) -> None:
        if self._positions:
            polled = self._reader.poll(self._timing.poll_ms)
            if polled.batch is not None and len(polled.batch):
                self._take(polled.batch)
            self._note(polled)
        if self._clock.monotonic_ms() >= self._watermark_due_ms:
            self._mark_idle()
            self._emit_watermark()
            self._publish_status()
            self._watermark_due_ms = self._clock.monotonic_ms() + self._timing.watermark_interval_ms

    def _take(self, batch: MessageBatch | RowBatch) -> None:
        self.counters["rows_in"] += len(batch)
        made = self._ingest.ingest(batch)
        if made.skipped:
            self.counters["skipped"] += made.skipped
        if made.bad is not None:
            self._on_bad(made.bad)
        now_ms = self._clock.monotonic_ms()
        for run in batch.runs:
            self._last_row_ms[run.split] = now_ms
            self._at_end.discard(run.split)
        if not made.rows.height:
            return
        rows = made.rows
        if made.ts is not None:
            watermarks = self._time.observe(made.runs, made.ts, made.positions)
            if watermarks is not None:
                rows = rows.hstack([pl.Series(WM, watermarks, dtype=pl.Int64)])
        self.counters["rows_out"] += rows.height
        self._rows.on_batch(rows)

    def _on_bad(self, bad: pl.DataFrame) -> None:
        self.counters["bad"] += bad.height
        match self._spec.on_error:
            case OnError.FAIL:
                raise self._failure(bad.row(0, named=True))
            case OnError.SKIP:
                pass
            case OnError.DIVERT:
                self._bad.on_batch(bad.with_columns(pl.lit(None, dtype=pl.Int64).alias(TS)))
            case _:
                assert_never(self._spec.on_error)

    def _failure(self, row: dict[str, object]) -> DataError:
        split = SplitId(str(row["topic"]), int(str(row["partition"])))
        place = self._spec.config.describe_position(split, int(str(row["offset"])))
        value = row["value"]
        shown = value[:200].decode(errors="replace") if isinstance(value, bytes) else "NULL"
        return DataError(
            f"source {self._spec.node}: {place}: {row['reason']}: {shown}",
            remedy="fix the data, or set `on_error:` to skip, divert or {dead_letter: <topic>}",
        )

    def _note(self, polled: Polled) -> None:
        if polled.positions:
            self._positions.update(polled.positions)
            self._time.moved(polled.positions)
        self._at_end |= polled.at_end
        if polled.finished:
            self._finished |= polled.finished
            self._time.finish(polled.finished)
        if polled.lag:
            self._lag = polled.lag

    def _mark_idle(self) -> None:
        if self._idle_after_ms is None:
            return
        before_ms = self._clock.monotonic_ms() - self._idle_after_ms
        idle = [split for split in self._at_end if self._last_row_ms[split] <= before_ms]
        self._time.set_idle(idle)

    def _emit_watermark(self) -> None:
        if self._spec.time is None:
            return
        ts = self._time.advance(self._relayed)
        if ts is not None:
            self._watermark = ts
            self._signal(Watermark(ts))

    def _signal(self, signal: Signal) -> None:
        self._rows.on_signal(signal)
        self._bad.on_signal(signal)
