"""Columns computed from the places of a batch's rows: order columns, metadata columns, bad rows. Pure.

A place is (topic, partition, position). A batch holds it as runs of one partition each, and positions row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass

from headrace.connect.metadata import BAD_SCHEMA, METADATA
from headrace.connect.source import MessageBatch, RowBatch, Run
from headrace.core.batch import HEADERS, O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT
from headrace.core.errors import InternalError
from headrace.core.time_range import MAX_MS, MIN_MS, outside_years
from headrace.core.types import polars_type
from headrace.formats.json.encode import encode_json_object
from headrace.plan.physical import SourceSpec

Indices = npt.NDArray[np.int64]

_NO_TEXT = pl.Series([], dtype=pl.String)


def order_columns(node: str, runs: Sequence[Run], positions: Indices) -> list[pl.Series]:
    """The place of each row in the total order of source rows."""
    height = len(positions)
    topic, partition = (
        _places([run for run in runs if run.end > run.begin], height) if height else (_NO_TEXT, positions)
    )
    return [
        pl.Series(O_NODE, [node], dtype=pl.String).new_from_index(0, height),
        topic.alias(O_TEXT),
        pl.Series(O_MAJOR, partition, dtype=pl.Int64),
        pl.Series(O_MINOR, positions, dtype=pl.Int64),
        pl.Series(O_INDEX, [0], dtype=pl.Int64).new_from_index(0, height),
    ]


def metadata_columns(spec: SourceSpec, batch: MessageBatch | RowBatch, good: Indices | None) -> list[pl.Series]:
    """The metadata columns of the good rows, in the order of `spec.metadata`."""
    topic, partition = _places(batch.runs, len(batch))
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
            micros = [None] * len(batch) if batch.timestamps is None else _microseconds(batch.timestamps)
            return pl.Series(micros, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
        case "key":
            keys = batch.keys if isinstance(batch, MessageBatch) else None
            if keys is None:
                return pl.Series([None] * len(batch), dtype=pl.Binary)
            return pl.Series(pl.from_arrow(keys.cast(pa.large_binary())))
        case "headers":
            return _headers(batch)
        case _:
            raise AssertionError(f"unknown metadata field {kind}")


def _headers(batch: MessageBatch | RowBatch) -> pl.Series:
    headers = batch.headers if isinstance(batch, MessageBatch) else None
    if headers is not None:
        return headers
    return pl.Series([None] * len(batch), dtype=polars_type(METADATA["headers"].type))


def bad_rows(
    batch: MessageBatch | RowBatch, index: Indices, reasons: Sequence[str], *, keeps_headers: bool = False
) -> pl.DataFrame | None:
    """The rows at `index` as rows of BAD_SCHEMA, each with its reason; None if there are none.

    keeps_headers   with the hidden column of their headers
    """
    if not len(index):
        return None
    topic, partition = _places(batch.runs, len(batch))
    stamps = [None] * len(index) if batch.timestamps is None else _microseconds(batch.timestamps[index])
    keys = batch.keys if isinstance(batch, MessageBatch) else None
    bad = pl.DataFrame(
        {
            "topic": topic.gather(index),
            "partition": partition[index].astype(np.int32),
            "offset": batch.positions[index],
            "timestamp": pl.Series(stamps, dtype=pl.Int64),  # NULL: the record has none within the years 1 to 9999
            "key": _binary(keys, index),
            "value": _values_as_text(batch, index),
            "reason": pl.Series(list(reasons), dtype=pl.String),
        }
    )
    bad = bad.select(pl.col(name).cast(dtype) for name, dtype in BAD_SCHEMA.polars().items())
    if keeps_headers:
        bad = bad.with_columns(_headers(batch).gather(index).alias(HEADERS))
    return bad


def _microseconds(timestamps: Indices) -> pl.Series:
    """Milliseconds as microseconds; NULL outside of the years 1 to 9999, where the product may exceed 64 bits."""
    inside = (timestamps >= MIN_MS) & (timestamps <= MAX_MS)
    micros = pl.Series(np.where(inside, timestamps, 0) * 1000, dtype=pl.Int64)
    return micros if inside.all() else micros.set(pl.Series(~inside), None)


def _values_as_text(batch: MessageBatch | RowBatch, index: Indices) -> pl.Series:
    if isinstance(batch, MessageBatch):
        return _binary(batch.values, index)
    columns = [_writable(column) for column in batch.rows[index]]
    texts = pl.from_arrow(encode_json_object(pl.DataFrame(columns), batch.rows.columns))
    assert isinstance(texts, pl.Series)
    return texts.cast(pl.Binary)


def _writable(column: pl.Series) -> pl.Series:
    """The column; as numbers if it holds a time outside of the years 1 to 9999, for which JSON may have no form."""
    if outside_years(column) is None:
        return column
    return column.to_frame().select(_numbers(pl.col(column.name), column.dtype).alias(column.name)).to_series()


def _numbers(value: pl.Expr, dtype: pl.DataType | DataTypeClass) -> pl.Expr:
    match dtype:
        case pl.Datetime() | pl.Date():
            return value.cast(pl.Int64)
        case pl.List():
            return value.list.eval(_numbers(pl.element(), dtype.inner))
        case pl.Struct():
            fields = [_numbers(value.struct.field(each.name), each.dtype).alias(each.name) for each in dtype.fields]
            return pl.when(value.is_not_null()).then(pl.struct(fields))
        case _:
            return value


def _binary(array: pa.Array | None, index: Indices) -> pl.Series:
    """The values at `index`. Polars gathers them, because Arrow's `take` does not support binary_view."""
    if array is None:
        return pl.Series([None] * len(index), dtype=pl.Binary)
    return pl.Series(pl.from_arrow(array)).gather(index).cast(pl.Binary)


def _places(runs: Sequence[Run], height: int) -> tuple[pl.Series, Indices]:
    """Topic and partition of each row. Raises InternalError if the runs do not cover the batch."""
    counts = [run.end - run.begin for run in runs]
    if sum(counts) != height:
        raise InternalError(f"a reader returned a batch of {height} rows with runs of {sum(counts)}")
    partition = np.repeat(np.array([run.split.partition for run in runs], dtype=np.int64), counts)
    if len({run.split.topic for run in runs}) == 1:
        return pl.Series([runs[0].split.topic], dtype=pl.String).new_from_index(0, height), partition
    rows = np.repeat(np.arange(len(runs)), counts)
    return pl.Series([run.split.topic for run in runs], dtype=pl.String).gather(rows), partition
