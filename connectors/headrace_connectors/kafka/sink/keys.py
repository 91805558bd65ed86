"""Record keys from columns: raw bytes of a single text or binary column, else a compact JSON object.

Distinct groups have distinct keys, and a group has one key: -0.0 is written as 0.0, to which it is equal; NaN and the
infinities, for which JSON has no numbers, are written as texts. Inside of lists and structs they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from headrace.connect.row_check import Refusal, Refused, ValueCheck, columns_holding
from headrace.core.types import DataType, ListOf, Primitive, Schema, Struct

KeyEncoder = Callable[[pl.DataFrame], pl.Series]
"""Rows to a binary series of keys; NULL is a record without a key."""

_RAW = (Primitive.STRING, Primitive.BINARY)
_FLOATS = {Primitive.FLOAT32: pl.Float32, Primitive.FLOAT64: pl.Float64}


def key_encoder(columns: tuple[str, ...], schema: Schema) -> KeyEncoder:
    """The encoder for these key columns, for rows that `key_check` accepts."""
    if len(columns) == 1 and schema.field(columns[0]).type in _RAW:
        return lambda rows: rows.get_column(columns[0]).cast(pl.Binary)
    fields = [schema.field(name) for name in columns]
    plain = [field.name for field in fields if field.type in _FLOATS]
    nested = _nested_floats(columns, schema)
    zeros = [
        _without_negative_zero(pl.col(field.name), field.type).alias(field.name)
        for field in fields
        if field.type in _FLOATS or field.name in nested
    ]

    def as_object(rows: pl.DataFrame) -> pl.Series:
        keys = _encoded(rows.select(columns).with_columns(zeros), columns, plain)
        column = rows.get_column(columns[0])
        if len(columns) > 1 or not column.null_count():
            return keys
        # NULL in a single key column means no key, so records are spread; in one of several columns NULL is a value
        return pl.select(pl.when(column.is_not_null()).then(keys).alias(column.name)).to_series()

    return as_object


def key_check(columns: tuple[str, ...], schema: Schema) -> ValueCheck:
    """Refuses rows whose key holds NaN or an infinity in a list or struct."""
    return ValueCheck(
        _nested_floats(columns, schema),
        _has_no_number,
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


def _nested_floats(columns: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    fields = [schema.field(name) for name in columns]
    return columns_holding(Schema(tuple(field for field in fields if field.type not in _FLOATS)), _is_float)


def _encoded(rows: pl.DataFrame, columns: tuple[str, ...], floats: Sequence[str]) -> pl.Series:
    """One object per row; a column of `floats` is a text where it is NaN or infinite."""
    from headrace.formats.json.encode import encode_json_object

    masks = {name: ~rows.get_column(name).is_finite().fill_null(value=True) for name in floats}
    odd = {name: mask for name, mask in masks.items() if mask.any()}
    if not odd:
        return _series(encode_json_object(rows, columns)).cast(pl.Binary)
    # rows with texts in the same columns are encoded together
    patterns = pl.DataFrame(odd).select(pl.struct(pl.all()).alias("texts"), pl.int_range(pl.len()).alias("row"))
    parts = []
    for (texts,), part in patterns.group_by("texts"):
        assert isinstance(texts, dict)
        numbers = part.get_column("row")
        chosen = rows[numbers].with_columns(_text(name) for name, is_text in texts.items() if is_text)
        parts.append(pl.DataFrame({"row": numbers, "key": _series(encode_json_object(chosen, columns))}))
    return pl.concat(parts).sort("row").get_column("key").cast(pl.Binary)


def _text(name: str) -> pl.Expr:
    value = pl.col(name)
    infinity = pl.when(value > 0).then(pl.lit("Infinity")).otherwise(pl.lit("-Infinity"))
    return pl.when(value.is_nan()).then(pl.lit("NaN")).otherwise(infinity).alias(name)


def _without_negative_zero(value: pl.Expr, dtype: DataType) -> pl.Expr:
    match dtype:
        case Primitive.FLOAT32 | Primitive.FLOAT64:
            # polars removes an addition of 0.0 as if it changed nothing
            return pl.when(value == 0).then(pl.lit(0.0, dtype=_FLOATS[dtype])).otherwise(value)
        case ListOf(inner):
            return value.list.eval(_without_negative_zero(pl.element(), inner))
        case Struct(fields):
            inside = [_without_negative_zero(value.struct.field(f.name), f.type).alias(f.name) for f in fields]
            return pl.when(value.is_not_null()).then(pl.struct(inside))
        case _:
            return value


def _is_float(dtype: DataType) -> bool:
    return dtype in _FLOATS


def _has_no_number(values: pl.Series) -> bool:
    return values.dtype.is_float() and not bool(values.is_finite().all())


def _series(column: pa.Array) -> pl.Series:
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    return series
