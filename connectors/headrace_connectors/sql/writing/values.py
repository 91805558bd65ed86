"""Converts our columns to the values of a database, whole columns at a time."""

from __future__ import annotations

import polars as pl

from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.json.encode import encode_json_object

_MICROSECONDS = "%Y-%m-%d %H:%M:%S%.6f"


def as_csv(rows: pl.DataFrame, schema: Schema) -> bytes:
    """Rows as CSV for PostgreSQL's COPY: NULL is empty, an empty text is quoted.

    Columns outside of the schema are unchanged: they are numbers, texts and bools.
    """
    shown = rows.with_columns([_as_text(rows.get_column(item.name), item.type) for item in schema])
    return shown.write_csv(None, include_header=False, quote_style="non_numeric").encode()


def as_sqlite(rows: pl.DataFrame, schema: Schema) -> list[tuple[object, ...]]:
    """Rows as values that SQLite stores unchanged; times are ISO 8601 in UTC, as its own functions parse them."""
    return rows.with_columns([_as_sqlite(rows.get_column(item.name), item.type) for item in schema]).rows()


def as_objects(rows: pl.DataFrame, schema: Schema) -> list[tuple[object, ...]]:
    """Rows as Python values for any other driver; times in UTC without a zone."""
    return rows.with_columns([_as_object(rows.get_column(item.name), item.type) for item in schema]).rows()


def _as_text(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.strftime(f"{_MICROSECONDS}+00")
        case Primitive.BINARY:
            return _series("\\x" + pl.col(column.name).bin.encode("hex"), column)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive() | Decimal():
            return column


def _as_sqlite(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.strftime(_MICROSECONDS)
        case Primitive.DATE:
            return column.dt.strftime("%Y-%m-%d")
        case Decimal():
            return column.cast(pl.String)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive():
            return column


def _as_object(column: pl.Series, dtype: DataType) -> pl.Series:
    match dtype:
        case Timestamp():
            return column.dt.replace_time_zone(None)
        case ListOf() | Struct():
            return _json_texts(column)
        case Primitive() | Decimal():
            return column


def _json_texts(column: pl.Series) -> pl.Series:
    """Each value as JSON, as the json format writes it inside of a row; NULL stays NULL."""
    objects = pl.from_arrow(encode_json_object(column.alias("v").to_frame(), ("v",)))
    assert isinstance(objects, pl.Series)
    texts = objects.cast(pl.String).str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.select(pl.when(column.is_not_null()).then(texts).alias(column.name)).to_series()


def _series(value: pl.Expr, column: pl.Series) -> pl.Series:
    return column.to_frame().select(value.alias(column.name)).to_series()
