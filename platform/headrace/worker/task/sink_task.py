"""The end of a chain: encodes rows and passes them to the sink's writer; at a barrier all output must be durable.

    rows ─> the format's check ─> encoded ─> writer ─> rows_out
                   └────── refused rows ───────┴─────> `refused_rows`, by the sink's `on_error`

EndOfInput makes nothing durable, because a last barrier follows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import assert_never

import polars as pl
import pyarrow as pa

from headrace.connect.format import Encoder, PreparedFormats
from headrace.connect.row_check import Encode, Refuse, Refused, RowCheck
from headrace.connect.sink import SinkBatch, Writer
from headrace.core.batch import OP, TS, hidden_columns
from headrace.core.errors import ExternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.stopwatch import Stopwatch
from headrace.exchange.traffic import NodeBytes, payload_bytes
from headrace.operators.operator import OnError
from headrace.plan.contexts import format_context
from headrace.plan.physical import SinkSpec
from headrace.worker.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots
from headrace.worker.task.refused_rows import RefusedRows


class SinkTask:
    """One subtask of a sink: a Receiver.

    open_writer   is given what takes the rows that the writer leaves out; None: it must raise for such a row
    """

    def __init__(
        self,
        spec: SinkSpec,
        *,
        open_writer: Callable[[Refuse | None], Writer],
        refused: RefusedRows,
        snapshots: SubtaskSnapshots,
        counters: Counter[str],
        lease: Lease | None = None,
        traffic: NodeBytes | None = None,
        formats: PreparedFormats | None = None,
    ) -> None:
        self._spec = spec
        self._refused = refused
        self._encoder = open_encoder(spec, formats or {})
        self._snapshots = snapshots
        self._lease = lease
        self._traffic = NodeBytes() if traffic is None else traffic
        self._visible = list(spec.schema.names)
        self._encoded = list(spec.encoded.names)
        # a dead letter that cannot be written is written without its content
        self._empties = spec.implicit and spec.config.refuses == "in_write"
        self._leaves_out = self._empties or spec.on_error is not OnError.FAIL
        self._check = open_format_check(spec, formats or {}) if self._leaves_out else None
        self._left_out: list[tuple[pl.DataFrame, Refused]] = []
        self._uncounted = 0
        self.counters = counters
        self.writer = open_writer(self._leave_out if self._leaves_out else None)
        self.writing = Stopwatch()
        """Time inside of the writer's `write`. Other threads may read it."""
        self.flushing = Stopwatch()
        """Time inside of the writer's `flush`. Other threads may read it."""

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Encodes and writes a batch; blocks while the writer's buffer is full.

        Raises ExternalError when the slot's lease has expired.
        """
        self._check_lease()
        self.counters["rows_in"] += batch.height
        self._uncounted += batch.height
        if self._check is not None:
            bad = self._check.refused(batch)
            self._leave_out(batch, bad)
            batch = batch.filter(~pl.int_range(batch.height, eager=True).is_in(list(bad))) if bad else batch
        if batch.height:
            self._write(batch, None if self._encoder is None else self._encoder.encode(batch.select(self._encoded)))
        self._settle()
        if self._spec.config.refuses != "in_flush":
            self._count()

    def _write(self, batch: pl.DataFrame, messages: pa.Array | None) -> None:
        rows = batch.select(*self._visible, *self._hidden(batch))
        with self.writing.running():
            self.writer.write(SinkBatch(rows, messages))
        self._traffic.bytes_out += int(rows.estimated_size()) if messages is None else payload_bytes(messages)

    def _hidden(self, batch: pl.DataFrame) -> Sequence[str]:
        """The writer reads time and deletes. A row that it leaves out needs its position, too."""
        if self._spec.on_error is not OnError.FAIL:
            return hidden_columns(batch)
        return [TS, OP] if OP in batch.columns else [TS]

    def _leave_out(self, rows: pl.DataFrame, refused: Refused) -> None:
        if refused:
            self._left_out.append((rows, refused))

    def _settle(self) -> None:
        """Passes on what was left out since the last call."""
        left_out, self._left_out = self._left_out, []
        for rows, refused in left_out:
            if self._empties:
                self._write_empty(rows[sorted(refused)])
            else:
                self._uncounted -= len(refused)
                self._refused.refuse(rows, refused)

    def _write_empty(self, rows: pl.DataFrame) -> None:
        """Writes dead letters with their headers alone. Raises DataError for one that is refused again."""
        nothing = [pl.lit(None, dtype=rows.schema[name]).alias(name) for name in self._encoded]
        self._write(rows.with_columns(nothing), pa.nulls(rows.height, pa.large_binary()))
        for again, refused in self._left_out:
            self._refused.refuse(again, refused)

    def _count(self) -> None:
        self.counters["rows_out"] += self._uncounted
        self._uncounted = 0

    def on_signal(self, signal: Signal) -> None:
        """At a barrier: flushes the writer and adds its committables to the epoch's snapshot."""
        match signal:
            case Barrier(epoch):
                self._check_lease()
                with self.flushing.running():
                    committables = self.writer.flush(epoch)
                self._settle()
                self._count()
                self._snapshots.add_committables(committables)
            case Watermark() | EndOfInput():
                pass
            case _:
                assert_never(signal)
        self._refused.on_signal(signal)

    def _check_lease(self) -> None:
        """Raises ExternalError when the lease has expired: the slot was frozen or cut off, and may have been replaced.

        Checked before each write, because a frozen process may resume here, before the thread that watches the lease.
        """
        if self._lease is not None and self._lease.expired():
            raise ExternalError("this slot has not heard of its worker for longer than the lease", retry=True)


def open_encoder(spec: SinkSpec, formats: PreparedFormats) -> Encoder | None:
    """Opens the encoder of a sink's messages; None if the sink takes rows."""
    if spec.config.takes != "messages" or spec.format is None:
        return None
    return spec.format.config.open_encoder(spec.encoded, format_context(spec, formats))


def open_format_check(spec: SinkSpec, formats: PreparedFormats) -> RowCheck | None:
    """Opens the check of the rows that the format cannot encode; None: it encodes all."""
    return None if spec.format is None else spec.format.config.open_check(spec.encoded, format_context(spec, formats))


def open_key_encoder(spec: SinkSpec, formats: PreparedFormats) -> Encode | None:
    """Opens the encoder of the keys of a sink's records; None: the sink has no `key_format`."""
    if spec.key_format is None:
        return None
    return spec.key_format.config.open_encoder(spec.key_schema, format_context(spec, formats, "key")).encode
