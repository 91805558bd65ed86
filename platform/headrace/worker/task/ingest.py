"""From a polled batch to rows with event time: decoding, metadata columns, event time, `__wm`, bad rows.

A source subtask has two outputs, its rows and its bad rows. Every engine uses this module, so it must not know loops,
commands or clocks (`worker.task.source_task`). The rules of event time are in `worker.task.source_progress`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import assert_never

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.connect.format import Decoder, Messages, PreparedFormats, UnknownIds
from headrace.connect.row_check import columns_holding
from headrace.connect.source import MessageBatch, RowBatch, Run, SplitId
from headrace.core.batch import TS, WM
from headrace.core.errors import DataError, InternalError
from headrace.core.reporting import reporting
from headrace.core.signals import Signal
from headrace.core.time_range import MAX_MS, MIN_MS, OUTSIDE, Mask, outside_years
from headrace.core.types import UNIT_WORDS, DataType, Field, ListOf, Schema, Struct, Timestamp
from headrace.exchange.traffic import NodeBytes, payload_bytes
from headrace.expr.compiler import compile_scalar
from headrace.formats.writable_times import is_time
from headrace.kernels.group.event_time import event_milliseconds
from headrace.operators.chain import Receiver
from headrace.operators.operator import OnError
from headrace.plan.contexts import format_context
from headrace.plan.physical import RecordTime, RowTime, SourceSpec
from headrace.rpc.figures import FIRST_ROWS_MAX, REMARKS_MAX, FirstRows
from headrace.worker.task.source_columns import bad_rows, metadata_columns, order_columns
from headrace.worker.task.source_progress import SourceProgress

Indices = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Taken:
    """A batch between decoding and its two outputs.

    rows     the good rows
    good     their indices in the batch, ascending; None: all of it
    bad      indices of the bad rows, ascending, with a reason each
    skipped  number of tombstones
    """

    rows: pl.DataFrame
    good: Indices | None
    bad: Indices
    reasons: list[str]
    skipped: int = 0

    def drop(self, wrong: Mask, reason: str | Sequence[str], height: int) -> None:
        """Makes good rows bad. wrong: one of each good row; reason: of all of them, or one each; height: rows of the
        batch."""
        index = np.arange(height, dtype=np.int64) if self.good is None else self.good
        dropped = index[wrong]
        self.bad, order = _merge(self.bad, dropped)
        reasons = [*self.reasons, *([reason] * len(dropped) if isinstance(reason, str) else reason)]
        self.reasons = [reasons[each] for each in order]
        keep = np.flatnonzero(~wrong)
        self.rows, self.good = self.rows[keep], index[keep]


class Ingest:
    """The live half of one source subtask, below its reader. Used by one thread."""

    def __init__(
        self,
        spec: SourceSpec,
        decoder: Decoder | None,
        *,
        keys: Decoder | None = None,
        time: SourceProgress,
        rows: Receiver,
        bad: Receiver,
        counters: Counter[str],
        traffic: NodeBytes | None = None,
    ) -> None:
        """`decoder`: None where the reader returns rows. `keys`: of the `key_format`. `rows`, `bad`: receivers of the
        two outputs. `traffic` counts the bytes of batches as they were read."""
        self.node = spec.node
        self._spec = spec
        self._decoder = decoder
        self._keys = None if keys is None else KeyColumns(keys, spec.key_schema)
        self._time = time
        self._rows = rows
        self._bad = bad
        self._counters = counters
        self._traffic = NodeBytes() if traffic is None else traffic
        self._names = list(spec.schema.names)
        self._types = list(spec.schema.polars().values())
        self._without_nulls = [field for field in spec.schema if restricts(field.type, nullable=field.nullable)]
        decoded = Schema((*spec.schema, *spec.key_schema))
        self._timed_columns = {name: _unit_hint(decoded, name) for name in columns_holding(decoded, is_time)}
        self._uses_record_time = isinstance(spec.time, RecordTime) or "timestamp" in dict(spec.metadata)
        self._time_value, self._time_fails = _time_expression(spec)
        self.first = FirstRowsCount(self._names)
        """What the first rows look like."""

    def on_batch(self, batch: MessageBatch | RowBatch) -> UnknownIds | None:
        """Sends the rows of a batch of n >= 1 messages or rows down both outputs; or returns what the decoder does not
        know yet, and nothing has happened.

        Raises DataError for a bad message where the source fails on it, InternalError for a reader or a decoder that
        breaks its contract.
        """
        taken = self._decode(batch)
        if isinstance(taken, UnknownIds):
            return taken
        self._counters["rows_in"] += len(batch)
        self._traffic.bytes_in += _size(batch)
        self._refuse_times(taken, batch)
        if self._spec.metadata:
            taken.rows = taken.rows.hstack(metadata_columns(self._spec, batch, taken.good))
        ts = self._event_time(taken, batch)
        if taken.skipped:
            self._counters["skipped"] += taken.skipped
        bad = bad_rows(batch, taken.bad, taken.reasons, keeps_headers=self._spec.keeps_headers)
        if bad is not None:
            self._on_bad(bad)
        with reporting("first rows"):
            self.first.add(taken.rows, ts)
        if taken.rows.height:
            rows = taken.rows.hstack(self._hidden_columns(batch, taken, ts))
            self._counters["rows_out"] += rows.height
            self._rows.on_batch(rows)
        return None

    def on_signal(self, signal: Signal) -> None:
        """Sends a signal down both outputs."""
        self._rows.on_signal(signal)
        self._bad.on_signal(signal)

    # ---- decoding ------------------------------------------------------------------------------------------------

    def _decode(self, batch: MessageBatch | RowBatch) -> _Taken | UnknownIds:
        if isinstance(batch, RowBatch):
            return self._check_rows(batch)
        if self._decoder is None:
            raise InternalError(f"source {self._spec.node} has no format, and its reader returned messages")
        decoded = self._decoder.decode(Messages(batch.values, batch.headers))
        if isinstance(decoded, UnknownIds):
            return decoded
        known = decoded.rows.height + len(decoded.bad) + decoded.skipped
        if known != len(batch):
            raise InternalError(f"source {self._spec.node}: the decoder returned {known} of {len(batch)} messages")
        taken = _Taken(decoded.rows, decoded.good, decoded.bad, list(decoded.reasons), decoded.skipped)
        return taken if self._keys is None else self._keys.added(taken, batch)

    def _check_rows(self, batch: RowBatch) -> _Taken:
        rows = batch.rows
        missing = [field for field in self._spec.schema if field.name not in rows.columns]
        types = self._spec.schema.polars()
        if missing:
            rows = rows.with_columns(pl.lit(None, dtype=types[field.name]).alias(field.name) for field in missing)
        if rows.columns != self._names:
            rows = rows.select(self._names)
        if rows.dtypes != self._types:
            rows = rows.select(pl.col(name).cast(dtype) for name, dtype in types.items())
        taken = _Taken(rows, None, np.empty(0, dtype=np.int64), [])
        if batch.bad:
            bad = np.array(sorted(batch.bad), dtype=np.int64)
            good = np.setdiff1d(np.arange(rows.height), bad)
            taken = _Taken(rows[good], good, bad, [batch.bad[row] for row in bad.tolist()])
        for field in self._without_nulls:
            mask = forbidden_nulls(taken.rows.get_column(field.name), field.type, nullable=field.nullable)
            if mask is not None:
                taken.drop(mask, _null_reason(field), rows.height)
        return taken

    def _refuse_times(self, taken: _Taken, batch: MessageBatch | RowBatch) -> None:
        """Makes rows bad that have a time outside of the years 1 to 9999: in a column, or the record's own if that is
        used."""
        for name, hint in self._timed_columns.items():
            mask = outside_years(taken.rows.get_column(name))
            if mask is not None:
                taken.drop(mask, f'field "{name}" {OUTSIDE}{hint}', len(batch))
        if self._uses_record_time and batch.timestamps is not None:
            stamps = batch.timestamps if taken.good is None else batch.timestamps[taken.good]
            if stamps.size and not (int(stamps.min()) >= MIN_MS and int(stamps.max()) <= MAX_MS):
                outside = (stamps < MIN_MS) | (stamps > MAX_MS)
                taken.drop(outside, f"the record's timestamp {OUTSIDE}", len(batch))

    # ---- time ----------------------------------------------------------------------------------------------------

    def _event_time(self, taken: _Taken, batch: MessageBatch | RowBatch) -> Indices | None:
        """The event time (epoch ms) of each good row; None for a source without time.

        A row whose event time is NULL becomes a bad row.
        """
        match self._spec.time:
            case None:
                return None
            case RecordTime():
                if batch.timestamps is None:
                    raise InternalError(f"source {self._spec.node}: the reader returned no record timestamps")
                return batch.timestamps if taken.good is None else batch.timestamps[taken.good]
            case RowTime():
                ts, null = _milliseconds(self._time_values(taken.rows))
        if null is None:
            return ts
        taken.drop(null, "event time is NULL", len(batch))
        return ts[~null]

    def _time_values(self, rows: pl.DataFrame) -> pl.Series:
        if isinstance(self._time_value, str):
            return rows.get_column(self._time_value)
        value = self._time_value
        if self._time_fails is not None:
            value = pl.when(self._time_fails).then(None).otherwise(value)
        return rows.select(value.alias(TS)).to_series()

    def _hidden_columns(self, batch: MessageBatch | RowBatch, taken: _Taken, ts: Indices | None) -> list[pl.Series]:
        good = taken.good
        positions = batch.positions if good is None else batch.positions[good]
        runs = batch.runs if good is None else _good_runs(batch.runs, good)
        hidden = [_time_series(ts, taken.rows.height)]
        if self._spec.order_columns:
            hidden += order_columns(self._spec.node, runs, positions)
        if ts is not None:
            watermarks = self._time.observe(runs, ts, positions)
            if watermarks is not None:
                hidden.append(pl.Series(WM, watermarks, dtype=pl.Int64))
        return hidden

    # ---- bad rows ------------------------------------------------------------------------------------------------

    def _on_bad(self, bad: pl.DataFrame) -> None:
        self._counters["bad"] += bad.height
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
            place=place,
            node=self._spec.node,
        )


def open_ingest(
    spec: SourceSpec,
    time: SourceProgress,
    *,
    rows: Receiver,
    bad: Receiver,
    counters: Counter[str],
    traffic: NodeBytes | None = None,
    formats: PreparedFormats | None = None,
) -> Ingest:
    """Opens the ingest of a source with the decoder of its format. A reader of whole files decodes them itself."""
    form, key_form = spec.format, spec.key_format
    keys = None
    if key_form is not None:
        keys = key_form.config.open_decoder(spec.key_schema, format_context(spec, formats or {}, "key"))
    decoder = (
        None
        if form is None or form.config.file_only
        else form.config.open_decoder(spec.schema, format_context(spec, formats or {}))
    )
    return Ingest(spec, decoder, keys=keys, time=time, rows=rows, bad=bad, counters=counters, traffic=traffic)


def _size(batch: MessageBatch | RowBatch) -> int:
    """The bytes of a batch: of message values, or polars' estimate of columns."""
    return int(batch.rows.estimated_size()) if isinstance(batch, RowBatch) else payload_bytes(batch.values)


def _time_expression(spec: SourceSpec) -> tuple[str | pl.Expr, pl.Expr | None]:
    """The column or expression of the event time, and the mask of rows for which the expression fails."""
    if not isinstance(spec.time, RowTime):
        return "", None
    if spec.time.expression in spec.output:
        return spec.time.expression, None
    compiled = compile_scalar(spec.time.expression, spec.output, has_time=False)
    return compiled.value, compiled.fails


def _unit_hint(schema: Schema, name: str) -> str:
    dtype = schema.field(name).type
    return f"; integers are read as {UNIT_WORDS[dtype.unit]}" if isinstance(dtype, Timestamp) else ""


def _null_reason(field: Field) -> str:
    if restricts(field.type, nullable=True):
        return f'field "{field.name}" is {field.type_text} but holds NULL'
    return f'field "{field.name}" is not null but missing'


def _milliseconds(values: pl.Series) -> tuple[Indices, npt.NDArray[np.bool_] | None]:
    """Timestamps (us) rounded down to ms, and the mask of NULLs, or None if there are no NULLs."""
    if not values.null_count():
        # a view: numpy has no time zones, and counts from the same moment
        return event_milliseconds(values.to_numpy().view(np.int64)), None
    physical = values.to_physical()
    return event_milliseconds(physical.fill_null(0).to_numpy()), physical.is_null().to_numpy()


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


# ---- keys ------------------------------------------------------------------------------------------------------------


class KeyColumns:
    """Adds the columns of the records' keys to rows. A row whose key cannot be read is bad; without a key they are
    NULL."""

    def __init__(self, decoder: Decoder, schema: Schema) -> None:
        self._decoder, self._schema = decoder, schema
        self._required = [field.name for field in schema if not field.nullable]

    def added(self, taken: _Taken, batch: MessageBatch) -> _Taken | UnknownIds:
        """Returns the rows with the columns after their own."""
        if batch.keys is None:
            raise InternalError("the reader returned no keys")
        decoded = self._decoder.decode(Messages(batch.keys, batch.headers))
        if isinstance(decoded, UnknownIds):
            return decoded
        good = np.arange(len(batch)) if taken.good is None else taken.good
        place = np.full(len(batch), -1, dtype=np.int64)
        place[slice(None) if decoded.good is None else decoded.good] = np.arange(decoded.rows.height)
        rows = decoded.rows.select(self._schema.names)
        if len(good) != len(batch) or decoded.good is not None:
            places = pl.Series(place[good])
            rows = rows.select(pl.all().gather(places.set(places < 0, None)))
        taken.rows = taken.rows.hstack(rows)
        reasons = dict(zip(decoded.bad.tolist(), decoded.reasons, strict=True))
        wrong = np.isin(good, decoded.bad)
        if wrong.any():
            taken.drop(wrong, [f"key: {reasons[row]}" for row in good[wrong].tolist()], len(batch))
        if self._required:
            # only a record without a key has NULL there: the decoder has refused any other one
            missing = taken.rows.get_column(self._required[0]).is_null().to_numpy()
            if missing.any():
                reason = f'field "{self._required[0]}" of the key is not null, and there is no key'
                taken.drop(missing, reason, len(batch))
        return taken


# ---- first rows ------------------------------------------------------------------------------------------------------
# What the first rows of a source subtask look like: columns that are always NULL, event times in 1970, remarks of the
# reader.
#
# Counts by column, and stops after `FIRST_ROWS_MAX` rows. Rows are not changed. `coordinator.figures.data_warnings`
# judges what was counted.

END_OF_1970_MS = 365 * 24 * 60 * 60 * 1_000
"""1971-01-01T00:00:00Z in epoch ms."""

Times = npt.NDArray[np.int64]


class FirstRowsCount:
    """The counts of one source subtask. One thread adds, any thread may read `figures`."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._all_null = tuple(columns)
        self._rows = 0
        self._in_1970 = 0
        self._greatest: int | None = None
        self.figures = FirstRows(rows=0)
        """The counts so far."""

    def add(self, rows: pl.DataFrame, times: Times | None) -> None:
        """Adds good rows, and their event times (epoch ms; None: the source has no time)."""
        if self._rows >= FIRST_ROWS_MAX or not rows.height:
            return
        self._rows += rows.height
        self._all_null = tuple(name for name in self._all_null if rows.get_column(name).null_count() == rows.height)
        if times is not None and int(times.min()) < END_OF_1970_MS:
            self._add_times(times)
        self.figures = FirstRows(
            rows=self._rows,
            all_null=self._all_null,
            in_1970=self._in_1970,
            greatest_1970=self._greatest,
            remarks=self.figures.remarks,
        )

    def remark(self, remarks: Sequence[str]) -> None:
        """Adds remarks of the reader, each once."""
        kept = tuple(dict.fromkeys((*self.figures.remarks, *remarks)))[:REMARKS_MAX]
        if kept != self.figures.remarks:
            self.figures = self.figures.model_copy(update={"remarks": kept})

    def _add_times(self, times: Times) -> None:
        early = times[(times >= 0) & (times < END_OF_1970_MS)]
        if early.size:
            self._in_1970 += int(early.size)
            self._greatest = max(int(early.max()), -1 if self._greatest is None else self._greatest)


# ---- forbidden NULLs -------------------------------------------------------------------------------------------------
# Finds rows with NULL where their column's type has none: in a `not null` column, or inside lists and structs.
#
# Readers that return columns (Parquet files, generators, memory) leave that to the ingest of their source.


def restricts(dtype: DataType, *, nullable: bool) -> bool:
    """Whether there are places of the type in which NULL is forbidden."""
    match dtype:
        case ListOf(inner, inner_nullable):
            return not nullable or restricts(inner, nullable=inner_nullable)
        case Struct(fields):
            return not nullable or any(restricts(field.type, nullable=field.nullable) for field in fields)
        case _:
            return not nullable


def forbidden_nulls(column: pl.Series, dtype: DataType, *, nullable: bool) -> Mask | None:
    """The rows that hold NULL in such a place; None if there are none."""
    found = [] if nullable or not column.null_count() else [column.is_null().to_numpy()]
    match dtype:
        case ListOf(inner, inner_nullable) if restricts(inner, nullable=inner_nullable):
            found += _in_lists(column, inner, nullable=inner_nullable)
        case Struct(fields):
            present = column.is_not_null().to_numpy()
            for field in fields:
                inside = forbidden_nulls(column.struct.field(field.name), field.type, nullable=field.nullable)
                # the fields of a struct that is NULL are NULL
                found += [] if inside is None or not (inside & present).any() else [inside & present]
        case _:
            pass
    return reduce(or_, found) if found else None


def _in_lists(column: pl.Series, dtype: DataType, *, nullable: bool) -> Sequence[Mask]:
    lengths = column.list.len().fill_null(0)
    # an empty list would be a NULL in the exploded column
    inside = forbidden_nulls(column.filter(lengths > 0).explode(), dtype, nullable=nullable)
    if inside is None:
        return []
    mask = np.zeros(len(column), dtype=bool)
    mask[np.repeat(np.arange(len(column)), lengths.to_numpy())[inside]] = True
    return [mask]
