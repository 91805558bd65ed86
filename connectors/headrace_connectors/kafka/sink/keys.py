"""Record keys from columns: by the sink's `key_format`; without one the bytes of a single text or binary column, else a
compact JSON object."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import Encode, Refusal, Refused, ValueCheck
from headrace.core.types import Primitive, Schema
from headrace.formats.json.keys import JsonKeyEncoder, has_no_number, nested_floats

KeyEncoder = Callable[[pl.DataFrame], pl.Series]
"""Rows to a binary series of keys; NULL is a record without a key."""

_RAW = (Primitive.STRING, Primitive.BINARY)


def key_encoder(columns: tuple[str, ...], schema: Schema, encode: Encode | None = None) -> KeyEncoder:
    """The encoder for these key columns, for rows that `key_check` accepts. encode: of the `key_format`; None: there is
    none."""
    if encode is None and len(columns) == 1 and schema.field(columns[0]).type in _RAW:
        return lambda rows: rows.get_column(columns[0]).cast(pl.Binary)
    encode = encode or JsonKeyEncoder(_key(columns, schema)).encode

    def encoded(rows: pl.DataFrame) -> pl.Series:
        keys = _series(encode(rows)).cast(pl.Binary)
        column = rows.get_column(columns[0])
        if len(columns) > 1 or not column.null_count():
            return keys
        # NULL in a single key column means no key, so records are spread; in one of several columns NULL is a value
        return pl.select(pl.when(column.is_not_null()).then(keys).alias(column.name)).to_series()

    return encoded


def key_check(columns: tuple[str, ...], schema: Schema) -> ValueCheck:
    """Refuses rows whose key holds NaN or an infinity in a list or struct."""
    return ValueCheck(
        nested_floats(_key(columns, schema)),
        has_no_number,
        "of the key holds NaN or an infinity, which JSON cannot tell from NULL in a list or struct",
        "filter such rows out before the sink, or make the key of plain columns",
    )


def rows_without_key(columns: tuple[str, ...], rows: pl.DataFrame) -> Refused:
    """The rows without a key: in upsert mode they could never be replaced. Among several key columns NULL is a
    value."""
    if len(columns) > 1:
        return {}
    refusal = Refusal(
        f"a row has no key ({columns[0]} is NULL), and mode: upsert needs one",
        "filter such rows out before the sink, or write with mode: append",
    )
    return dict.fromkeys(rows.get_column(columns[0]).is_null().arg_true(), refusal)


def _key(columns: tuple[str, ...], schema: Schema) -> Schema:
    return Schema(tuple(schema.field(name) for name in columns))


def _series(column: pa.Array) -> pl.Series:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series
