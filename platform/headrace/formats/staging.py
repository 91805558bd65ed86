"""Converts rows that were decoded one by one to columns: values are staged in plain types and cast once.

Times are staged as integers, float32 as a float64 that the cast rounds once, decimals as `decimal.Decimal`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.types import DataType, ListOf, Primitive, Schema, Struct, Timestamp, polars_type


def staged_frame(schema: Schema, rows: Sequence[list[object]]) -> pl.DataFrame:
    """Rows of staged values, one for each column of `schema`, as a frame of its types."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    series = []
    for item, values in zip(schema, columns, strict=True):
        staging, final = staging_type(item.type), polars_type(item.type)
        staged = pl.Series(item.name, values, dtype=staging)
        series.append(staged if staging == final else staged.cast(final))
    return pl.DataFrame(series)


def staging_type(dtype: DataType) -> pl.DataType:
    """The polars type in which values of `dtype` are staged."""
    match dtype:
        case Timestamp():
            return pl.Int64()
        case Primitive.DATE:
            return pl.Int32()
        case Primitive.FLOAT32:
            return pl.Float64()
        case ListOf(inner):
            return pl.List(staging_type(inner))
        case Struct(fields):
            return pl.Struct({item.name: staging_type(item.type) for item in fields})
        case _:
            return polars_type(dtype)
