"""The types of polars as types of a pipeline; `core.types.polars_type` is the other direction."""

from __future__ import annotations

from collections.abc import Callable

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
