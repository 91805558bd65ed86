"""Converts single values, as the protobuf library returns them, to values of staging columns."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from headrace.core.types import DataType, Decimal, Primitive, Timestamp
from headrace.formats import text_values as text
from headrace.formats.protobuf.field_kinds import UINT64_DIGITS, FieldKind

Convert = Callable[[Any], object]
"""Returns the value of a staging column. Raises BadValueError."""
SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since the epoch."""
DURATION_SECONDS_MAX = 315_576_000_000
"""10,000 years."""
NANOS_MAX = 999_999_999
DECIMAL_SCALE_MAX = 10_000
"""Largest magnitude of the scale of a decimal that carries its own."""


class BadValueError(Exception):
    """A value is none of its type, or its column cannot hold it; the text is the reason."""


_AS_IS = {
    FieldKind.BOOL: {Primitive.BOOL},
    FieldKind.INT32: {Primitive.INT32, Primitive.INT64},
    FieldKind.INT64: {Primitive.INT64},
    FieldKind.UINT32: {Primitive.INT64},
    FieldKind.FLOAT: {Primitive.FLOAT32, Primitive.FLOAT64},
    FieldKind.DOUBLE: {Primitive.FLOAT64},
    FieldKind.BYTES: {Primitive.BINARY},
    FieldKind.ENUM: {Primitive.INT32},
    FieldKind.EMPTY: {Primitive.BOOL},
}


def converter(kind: FieldKind, field: FieldDescriptor, dtype: DataType, pool: DescriptorPool) -> Convert | None:
    """The converter of values of a kind to a column of this type; None if it cannot hold them.

    field   of an enum: what its numbers are called
    pool    the types that an Any may hold
    """
    if dtype in _AS_IS.get(kind, ()):
        return lambda value: value
    if isinstance(dtype, Decimal):
        return _to_decimal(kind, dtype)
    match kind, dtype:
        case FieldKind.UINT64, Primitive.INT64:
            return _uint64
        case FieldKind.STRING, Primitive.STRING:
            return string
        case FieldKind.ENUM, Primitive.STRING:
            return _enum(field)
        case FieldKind.TIMESTAMP, Timestamp():
            return _timestamp
        case FieldKind.DURATION, Primitive.INT64:
            return _duration
        case FieldKind.JSON, Primitive.STRING:
            return lambda value: _json(value, pool)
        case _:
            return None


def _to_decimal(kind: FieldKind, dtype: Decimal) -> Convert | None:
    if kind is FieldKind.UINT64 and dtype.precision - dtype.scale >= UINT64_DIGITS:
        return decimal.Decimal
    if kind is FieldKind.STRING:
        return lambda value: _decimal_text(value, dtype)
    return (lambda value: _decimal(value, dtype)) if kind is FieldKind.DECIMAL else None


def string(value: str | bytes) -> str:
    """The library returns bytes for a text that is not UTF-8 where the schema demands none."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as cause:
            raise BadValueError(f"not UTF-8: byte 0x{value[cause.start]:02x} at {cause.start}") from cause
    return value


def enum_names(field: FieldDescriptor) -> dict[int, str]:
    """Number -> name of a field of an enum, of an alias the first one."""
    assert field.enum_type is not None, "a field of an enum"
    names: dict[int, str] = {}
    for each in field.enum_type.values:
        names.setdefault(each.number, each.name)
    return names


def _enum(field: FieldDescriptor) -> Convert:
    names = enum_names(field)
    return lambda value: names.get(value) or str(value)


def _uint64(value: int) -> int:
    if value > text.INT64_MAX:
        raise BadValueError(f"{value} is beyond int64: declare decimal({UINT64_DIGITS},0)")
    return value


def _timestamp(value: Any) -> int:
    seconds, nanos = value.seconds, value.nanos
    if not SECONDS_MIN <= seconds <= SECONDS_MAX or not 0 <= nanos <= NANOS_MAX:
        raise BadValueError(f"a time of {seconds} s and {nanos} ns: years are 1 to 9999, nanoseconds 0 to {NANOS_MAX}")
    return int(seconds * 1_000_000 + nanos // 1_000)


def _duration(value: Any) -> int:
    seconds, nanos = value.seconds, value.nanos
    has_two_signs = seconds * nanos < 0
    if abs(seconds) > DURATION_SECONDS_MAX or abs(nanos) > NANOS_MAX or has_two_signs:
        raise BadValueError(f"a duration of {seconds} s and {nanos} ns")
    return int(seconds * 1_000_000 + nanos // 1_000)


def _decimal_text(value: str | bytes, dtype: Decimal) -> decimal.Decimal:
    found = text.parse_decimal(string(value), dtype.precision, dtype.scale)
    if found is None:
        raise BadValueError(f"a text that is no {dtype}")
    return found


def _decimal(value: Any, dtype: Decimal) -> decimal.Decimal:
    if abs(value.scale) > DECIMAL_SCALE_MAX:
        raise BadValueError(f"a decimal with a scale of {value.scale}")
    unscaled = int.from_bytes(value.value, "big", signed=True)
    digits = decimal.Decimal(abs(unscaled)).as_tuple().digits
    found = text.fit_decimal(decimal.Decimal((int(unscaled < 0), digits, -value.scale)), dtype.precision, dtype.scale)
    if found is None:
        raise BadValueError(f"a decimal that {dtype} does not hold exactly")
    return found


def _json(value: Any, pool: DescriptorPool) -> str:
    """Protobuf's JSON, with sorted keys: maps have no order."""
    try:
        made = json_format.MessageToDict(value, descriptor_pool=pool)
    except TypeError as cause:
        what = "an Any of a type that the schema lacks: declare {type_url: string, value: binary}"
        raise BadValueError(what if "message descriptor" in str(cause) else f"no JSON: {cause}") from cause
    except (ValueError, DecodeError, RecursionError, OverflowError, json_format.Error) as cause:
        raise BadValueError(f"no JSON: {cause}") from cause
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
