"""Lossless conversions between polars types: the types that a map function may return for a declared type."""

from __future__ import annotations

import polars as pl
from polars.datatypes import DataTypeClass

_INT_BITS: dict[type[pl.DataType], int] = {
    pl.Int8: 8,
    pl.Int16: 16,
    pl.Int32: 32,
    pl.Int64: 64,
    pl.UInt8: 9,
    pl.UInt16: 17,
    pl.UInt32: 33,
}
"""Bits of the signed integer that holds every value."""
_EXACT_INT_BITS: dict[type[pl.DataType], int] = {pl.Float32: 25, pl.Float64: 54}
"""Bits of the signed integers that a float holds exactly."""


def castable(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether every value of the type `found` is a value of the type `wanted`, so that a cast changes no value.

    A datetime without a zone counts as UTC; a column of NULLs fits any type.
    """
    match wanted:
        case _ if found in (wanted, pl.Null):
            return True
        case pl.Int32() | pl.Int64():
            return _int_bits(found) <= _INT_BITS[type(wanted)]
        case pl.Float32() | pl.Float64():
            exact = _EXACT_INT_BITS[type(wanted)]
            return _int_bits(found) <= exact or (found == pl.Float32 and wanted == pl.Float64)
        case pl.String():
            return isinstance(found, pl.Categorical | pl.Enum)
        case pl.Datetime():
            return isinstance(found, pl.Datetime) and found.time_unit in ("ms", "us")
        case pl.Decimal():
            return isinstance(found, pl.Decimal) and _decimal_fits(found, wanted)
        case pl.List():
            return isinstance(found, pl.List) and castable(_plain(found.inner), _plain(wanted.inner))
        case pl.Struct():
            return isinstance(found, pl.Struct) and _struct_fits(found, wanted)
        case _:
            return False


def _int_bits(dtype: pl.DataType) -> int:
    return _INT_BITS.get(type(dtype), 1_000)


def _decimal_fits(found: pl.Decimal, wanted: pl.Decimal) -> bool:
    whole = (wanted.precision or 38) - wanted.scale
    return found.scale <= wanted.scale and (found.precision or 38) - found.scale <= whole


def _struct_fits(found: pl.Struct, wanted: pl.Struct) -> bool:
    pairs = zip(found.fields, wanted.fields, strict=False)
    return len(found.fields) == len(wanted.fields) and all(
        mine.name == theirs.name and castable(_plain(mine.dtype), _plain(theirs.dtype)) for mine, theirs in pairs
    )


def _plain(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()
