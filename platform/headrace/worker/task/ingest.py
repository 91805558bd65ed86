"""From what a reader polled to rows with time and place: decoding, metadata, event time, bad rows.

Owns one source subtask's path from messages to the hidden columns `__ts` and the order columns. Knows nothing of
watermarks (`worker.task.source_time`) and of loops (`worker.task.source_task`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoder
from headrace.connect.metadata import BAD_SCHEMA, METADATA
from headrace.connect.source import MessageBatch, RowBatch, Run
from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS
from headrace.core.types import polars_type
from headrace.expr.compiler import compile_scalar
from headrace.plan.physical import RecordTime, RowTime, SourceSpec

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ingested:
    """Good rows with hidden columns (but `__wm`), their places, and the bad ones beside them.

    rows       visible columns, `__ts` and, if asked for, the order columns
    ts         int64[rows.height] epoch ms, or None where the source has no time
    positions  int64[rows.height]
    runs       over the good rows
    bad        rows of BAD_SCHEMA, or None
    skipped    tombstones
    """

    rows: pl.DataFrame
    ts: Indices | None
    positions: Indices
    runs: tuple[Run, ...]
    bad: pl.DataFrame | None
    skipped: int


class Ingest:
    """The live decoder of one source subtask."""

    def __init__(self, spec: SourceSpec, decoder: Decoder | None) -> None:
        self._spec = spec
        self._decoder = decoder
        self._names = list(spec.schema.names)
        self._required = [field.name for field in spec.schema if not field.nullable]
        self._time_column = _plain_column(spec)
        self._time = None
        if isinstance(spec.time, RowTime) and self._time_column is None:
            self._time = compile_scalar(spec.time.expression, spec.output, has_time=False)

    def ingest(self, batch: MessageBatch | RowBatch) -> Ingested:
        """Makes rows of a batch of n >= 1 messages or rows."""
        rows, good, bad, reasons, skipped = self._decode(batch)
        if self._spec.metadata:
            rows = rows.hstack(_metadata(self._spec, batch, good))
        ts, null_time = self._event_time(rows, batch, good)
        if null_time is not None:
            keep = np.flatnonzero(~null_time)
            index = np.arange(len(batch), dtype=np.int64) if good is None else good
            dropped = index[null_time]
            bad, order = _merge(bad, dropped)
            reasons = [[*reasons, *["event time is NULL"] * len(dropped)][i] for i in order]
            rows, good = rows[keep], index[keep]
            ts = None if ts is None else ts[keep]
        return self._finish(batch, rows, ts, good, _Bad(bad, reasons), skipped)

    def _decode(self, batch: MessageBatch | RowBatch) -> tuple[pl.DataFrame, Indices | None, Indices, list[str], int]:
        if isinstance(batch, MessageBatch):
            assert self._decoder is not None, "messages need a format"
            decoded = self._decoder.decode(batch.values)
            assert decoded.rows.height + len(decoded.bad) + decoded.skipped == len(batch), (
                "every message is accounted for"
            )
            return decoded.rows, decoded.good, decoded.bad, list(decoded.reasons), decoded.skipped
        return self._take_rows(batch)

    def _take_rows(self, batch: RowBatch) -> tuple[pl.DataFrame, Indices | None, Indices, list[str], int]:
        rows = batch.rows
        missing = [field for field in self._spec.schema if field.name not in rows.columns]
        types = self._spec.schema.polars()
        if missing:
            rows = rows.with_columns(pl.lit(None, dtype=types[field.name]).alias(field.name) for field in missing)
        rows = rows.select(self._names)
        if rows.schema != pl.Schema(types):
            rows = rows.select(pl.col(name).cast(dtype) for name, dtype in types.items())
        nulls = {name: rows.get_column(name) for name in self._required if rows.get_column(name).null_count()}
        if not nulls:
            return rows, None, np.empty(0, dtype=np.int64), [], 0
        wrong = np.zeros(rows.height, dtype=bool)
        for column in nulls.values():
            wrong |= column.is_null().to_numpy()
        bad = np.flatnonzero(wrong)
        reasons = [self._null_reason(nulls, int(row)) for row in bad]
        good = np.flatnonzero(~wrong)
        return rows[good], good, bad, reasons, 0

    @staticmethod
    def _null_reason(nulls: dict[str, pl.Series], row: int) -> str:
        name = next(name for name, column in nulls.items() if column[row] is None)
        return f'field "{name}" is not null but missing'

    def _event_time(
        self, rows: pl.DataFrame, batch: MessageBatch | RowBatch, good: Indices | None
    ) -> tuple[Indices | None, npt.NDArray[np.bool_] | None]:
        """Event time in ms of each row, and which rows have none (None: all have)."""
        match self._spec.time:
            case None:
                return None, None
            case RecordTime():
                assert batch.timestamps is not None, "the source was asked for record timestamps"
                return (batch.timestamps if good is None else batch.timestamps[good]), None
            case RowTime():
                return _milliseconds(self._time_values(rows))

    def _time_values(self, rows: pl.DataFrame) -> pl.Series:
        if self._time_column is not None:
            return rows.get_column(self._time_column)
        assert self._time is not None
        value = self._time.value
        if self._time.fails is not None:
            value = pl.when(self._time.fails).then(None).otherwise(value)
        return rows.select(value.alias(TS)).to_series()

    def _finish(
        self,
        batch: MessageBatch | RowBatch,
        rows: pl.DataFrame,
        ts: Indices | None,
        good: Indices | None,
        bad: _Bad,
        skipped: int,
    ) -> Ingested:
        positions = batch.positions if good is None else batch.positions[good]
        runs = batch.runs if good is None else _good_runs(batch.runs, good)
        hidden = [_time_series(ts, rows.height)]
        if self._spec.order_columns:
            hidden += order_columns(self._spec.node, runs, positions)
        return Ingested(rows.hstack(hidden), ts, positions, runs, bad.frame(batch), skipped)


def open_ingest(spec: SourceSpec) -> Ingest:
    """A source's, with the decoder of its format; a reader of whole files decodes them itself."""
    form = spec.format
    return Ingest(spec, None if form is None or form.config.file_only else form.config.open_decoder(spec.schema))


@dataclass(frozen=True, slots=True)
class _Bad:
    index: Indices
    reasons: Sequence[str]

    def frame(self, batch: MessageBatch | RowBatch) -> pl.DataFrame | None:
        """The bad ones of a batch as rows of BAD_SCHEMA."""
        count = len(self.index)
        if not count:
            return None
        topic, partition = places(batch.runs, len(batch))
        stamps = None if batch.timestamps is None else batch.timestamps[self.index] * 1000
        keys = batch.keys if isinstance(batch, MessageBatch) else None
        values = _values_as_text(batch, self.index)
        bad = pl.DataFrame(
            {
                "topic": topic.gather(self.index),
                "partition": partition[self.index].astype(np.int32),
                "offset": batch.positions[self.index],
                "timestamp": pl.Series([None] * count if stamps is None else stamps, dtype=pl.Int64),
                "key": _binary(keys, self.index),
                "value": values,
                "reason": pl.Series(list(self.reasons), dtype=pl.String),
            }
        )
        return bad.select(pl.col(name).cast(dtype) for name, dtype in BAD_SCHEMA.polars().items())


def _values_as_text(batch: MessageBatch | RowBatch, index: Indices) -> pl.Series:
    if isinstance(batch, MessageBatch):
        return _binary(batch.values, index)
    rows = batch.rows[index]
    return rows.select(pl.struct(pl.all()).struct.json_encode().cast(pl.Binary)).to_series()


def _binary(array: pa.Array | None, index: Indices) -> pl.Series:
    """The values at `index`. Polars gathers them: Arrow takes nothing from a binary_view."""
    if array is None:
        return pl.Series([None] * len(index), dtype=pl.Binary)
    return pl.Series(pl.from_arrow(array)).gather(index).cast(pl.Binary)


def _plain_column(spec: SourceSpec) -> str | None:
    if isinstance(spec.time, RowTime) and spec.time.expression in spec.output:
        return spec.time.expression
    return None


def _milliseconds(values: pl.Series) -> tuple[Indices, npt.NDArray[np.bool_] | None]:
    """Timestamps (us) floored to ms, and which are NULL."""
    physical = values.to_physical()
    null_time = physical.is_null().to_numpy() if physical.null_count() else None
    micros = (physical.fill_null(0) if null_time is not None else physical).to_numpy()
    return np.floor_divide(micros, 1000), null_time


def _time_series(ts: Indices | None, height: int) -> pl.Series:
    if ts is None:
        return pl.Series(TS, [None], dtype=pl.Int64).new_from_index(0, height)
    return pl.Series(TS, ts, dtype=pl.Int64)


def _merge(bad: Indices, more: Indices) -> tuple[Indices, list[int]]:
    joined = np.concatenate([bad, more])
    order = np.argsort(joined, kind="stable")
    return joined[order], order.tolist()


def _good_runs(runs: Sequence[Run], good: Indices) -> tuple[Run, ...]:
    """The same runs over the good rows only."""
    bounds = np.searchsorted(good, [edge for run in runs for edge in (run.begin, run.end)])
    edges = iter(bounds.tolist())
    return tuple(Run(run.split, begin, end) for run, begin, end in zip(runs, edges, edges, strict=True))


def places(runs: Sequence[Run], height: int) -> tuple[pl.Series, Indices]:
    """Topic (categorical-sized string column) and partition of each row."""
    counts = [run.end - run.begin for run in runs]
    assert sum(counts) == height, "runs cover the batch"
    partition = np.repeat(np.array([run.split.partition for run in runs], dtype=np.int64), counts)
    if len({run.split.topic for run in runs}) == 1:
        return pl.Series([runs[0].split.topic], dtype=pl.String).new_from_index(0, height), partition
    rows = np.repeat(np.arange(len(runs)), counts)
    return pl.Series([run.split.topic for run in runs], dtype=pl.String).gather(rows), partition


def order_columns(node: str, runs: Sequence[Run], positions: Indices) -> list[pl.Series]:
    """The place of each row in the total order of source rows."""
    height = len(positions)
    topic, partition = places([run for run in runs if run.end > run.begin], height) if height else (_NO_TEXT, positions)
    return [
        pl.Series(O_NODE, [node], dtype=pl.String).new_from_index(0, height),
        topic.alias(O_TEXT),
        pl.Series(O_MAJOR, partition, dtype=pl.Int64),
        pl.Series(O_MINOR, positions, dtype=pl.Int64),
        pl.Series(O_INDEX, [0], dtype=pl.Int64).new_from_index(0, height),
    ]


_NO_TEXT = pl.Series([], dtype=pl.String)


def _metadata(spec: SourceSpec, batch: MessageBatch | RowBatch, good: Indices | None) -> list[pl.Series]:
    """The metadata columns of the good rows, in the order asked for."""
    topic, partition = places(batch.runs, len(batch))
    made = []
    for kind, column in spec.metadata:
        series = _metadata_column(kind, batch, topic, partition)
        made.append((series if good is None else series.gather(good)).alias(column))
    return made


def _metadata_column(kind: str, batch: MessageBatch | RowBatch, topic: pl.Series, partition: Indices) -> pl.Series:
    match kind:
        case "topic":
            return topic
        case "partition":
            return pl.Series(partition, dtype=pl.Int64).cast(pl.Int32)
        case "offset":
            return pl.Series(batch.positions, dtype=pl.Int64)
        case "timestamp":
            stamps = pl.Series([None] * len(batch), dtype=pl.Int64) if batch.timestamps is None else None
            micros = stamps if batch.timestamps is None else pl.Series(batch.timestamps * 1000, dtype=pl.Int64)
            assert micros is not None
            return micros.cast(pl.Datetime("us", "UTC"))
        case "key":
            keys = batch.keys if isinstance(batch, MessageBatch) else None
            if keys is None:
                return pl.Series([None] * len(batch), dtype=pl.Binary)
            return pl.Series(pl.from_arrow(keys.cast(pa.large_binary())))
        case "headers":
            headers = batch.headers if isinstance(batch, MessageBatch) else None
            return (
                headers
                if headers is not None
                else pl.Series([None] * len(batch), dtype=polars_type(METADATA["headers"].type))
            )
        case _:
            raise AssertionError(f"unknown metadata field {kind}")
