"""The types of polars as types of a pipeline; `core.types.polars_type` is the other direction. Integers of 128 bits in
Arrow and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import polars as pl

from headrace.core.types import TIMESTAMP, DataType, Decimal, Field, ListOf, Primitive, Struct

_PLAIN: tuple[tuple[Callable[[pl.DataType], bool], DataType], ...] = (
    (lambda t: t == pl.Boolean, Primitive.BOOL),
    (lambda t: t in (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16), Primitive.INT32),
    (lambda t: t in (pl.Int64, pl.UInt32), Primitive.INT64),
    (lambda t: t == pl.Float32, Primitive.FLOAT32),
    (lambda t: t == pl.Float64, Primitive.FLOAT64),
    (lambda t: t == pl.String or isinstance(t, pl.Categorical | pl.Enum), Primitive.STRING),
    (lambda t: t == pl.Binary, Primitive.BINARY),
    (lambda t: t == pl.Date, Primitive.DATE),
    (lambda t: isinstance(t, pl.Datetime), TIMESTAMP),
)


def type_of(dtype: pl.DataType) -> DataType | None:
    """The type that holds every value of a polars type; None: there is none."""
    match dtype:
        case pl.Decimal():
            return Decimal(dtype.precision or 38, dtype.scale)
        case pl.List():
            inner = type_of(dtype.inner)  # type: ignore[arg-type]
            return None if inner is None else ListOf(inner)
        case pl.Struct():
            fields = [(item.name, type_of(item.dtype)) for item in dtype.fields]  # type: ignore[arg-type]
            known = tuple(Field(name, inner) for name, inner in fields if inner is not None)
            return Struct(known) if known and len(known) == len(fields) else None
        case _:
            return next((ours for fits, ours in _PLAIN if fits(dtype)), None)


# ---- integers of 128 bits --------------------------------------------------------------------------------------------

INT128_IN_ARROW = pl.Decimal(38, 0)
"""Arrow and Parquet have no integers of 128 bits: they are decimals of scale 0, of the same bits."""


def int128_columns(schema: Mapping[str, pl.DataType]) -> list[str]:
    """The names of the columns with integers of 128 bits."""
    return [name for name, dtype in schema.items() if dtype == pl.Int128]


def without_int128(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, for Arrow and Parquet."""
    return frame.with_columns(pl.col(int128_columns(frame.schema)).cast(INT128_IN_ARROW))


def with_int128(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """The rows of `without_int128` again. names: of the columns that it has changed. Copies nothing."""
    return frame.with_columns(pl.col(name).to_physical() for name in names)
