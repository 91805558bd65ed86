"""Record keys from columns: raw bytes of a single text or binary column, else a compact JSON object."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import refused_row
from headrace.core.types import Primitive, Schema

KeyEncoder = Callable[[pl.DataFrame], pl.Series]
"""Rows to a binary series of keys; NULL is a record without a key."""

_RAW = (Primitive.STRING, Primitive.BINARY)


def key_encoder(columns: tuple[str, ...], schema: Schema) -> KeyEncoder:
    """The encoder for these key columns."""
    if len(columns) == 1 and schema.field(columns[0]).type in _RAW:
        return lambda rows: rows.get_column(columns[0]).cast(pl.Binary)
    from headrace.formats.json.encode import encode_json_object

    def as_object(rows: pl.DataFrame) -> pl.Series:
        keys = _series(encode_json_object(rows, columns)).cast(pl.Binary)
        column = rows.get_column(columns[0])
        if len(columns) > 1 or not column.null_count():
            return keys
        # NULL in a single key column means no key, so records are spread; in one of several columns NULL is a value
        return pl.select(pl.when(column.is_not_null()).then(keys).alias(column.name)).to_series()

    return as_object


def _series(column: pa.Array) -> pl.Series:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series


def refuse_null_keys(keys: pl.Series, rows: pl.DataFrame, sink: str) -> None:
    """Raises DataError for the first row without a key: in upsert mode it could never be replaced."""
    if keys.null_count() == 0:
        return
    index = int(keys.is_null().arg_true()[0])
    raise refused_row(
        sink,
        f"a row has no key ({keys.name} is NULL), and mode: upsert needs one",
        rows[index],
        "filter such rows out before the sink, or write with mode: append",
    )
