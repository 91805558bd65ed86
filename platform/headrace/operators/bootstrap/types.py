"""Whether every value of a supplied type is a value of the step's type. Pure."""

from __future__ import annotations

import polars as pl

from headrace.core.types import (
    FLOAT_TYPES,
    INT_TYPES,
    TIMESTAMP,
    DataType,
    Decimal,
    ListOf,
    Primitive,
    Struct,
    polars_type,
)

_INTS = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64, "UInt8": 9, "UInt16": 17, "UInt32": 33}
"""Bits of the signed integer that holds every value."""
_MANTISSA = {Primitive.FLOAT32: 24, Primitive.FLOAT64: 53}
_DIGITS = {8: 3, 9: 3, 16: 5, 17: 5, 32: 10, 33: 10, 64: 19}


def takes(wanted: DataType, given: pl.DataType) -> bool:
    """Whether every value of the type `given` is a value of the type `wanted`."""
    if given in (polars_type(wanted), pl.Null()):
        return True
    match wanted:
        case ListOf(inner):
            return isinstance(given, pl.List) and takes(inner, _instance(given.inner))
        case Struct(fields):
            if not isinstance(given, pl.Struct) or [item.name for item in given.fields] != [
                each.name for each in fields
            ]:
                return False
            pairs = zip(fields, given.fields, strict=True)
            return all(takes(ours.type, _instance(theirs.dtype)) for ours, theirs in pairs)
        case _:
            return _takes_number(wanted, given) or _takes_instant(wanted, given)


def _takes_number(wanted: DataType, given: pl.DataType) -> bool:
    bits = _INTS.get(str(given))
    if wanted in INT_TYPES:
        return bits is not None and bits <= (32 if wanted is Primitive.INT32 else 64)
    if wanted in FLOAT_TYPES:
        return given == pl.Float32 or (bits is not None and bits <= _MANTISSA[Primitive(str(wanted))])
    if isinstance(wanted, Decimal):
        whole, scale = (_DIGITS[bits], 0) if bits is not None else _digits(given)
        return scale <= wanted.scale and whole <= wanted.precision - wanted.scale
    return False


def _takes_instant(wanted: DataType, given: pl.DataType) -> bool:
    return wanted == TIMESTAMP and isinstance(given, pl.Datetime) and given.time_zone is not None


def _digits(given: pl.DataType) -> tuple[int, int]:
    """Digits before and after the point; too many for a type that is not a decimal."""
    if not isinstance(given, pl.Decimal):
        return 99, 0
    return (given.precision or 38) - given.scale, given.scale


def _instance(dtype: object) -> pl.DataType:
    """polars accepts classes as inner types, and returns the class or instance that it was passed; this returns an
    instance for both."""
    if isinstance(dtype, type):
        dtype = dtype()
    assert isinstance(dtype, pl.DataType), "types are classes or instances"
    return dtype
