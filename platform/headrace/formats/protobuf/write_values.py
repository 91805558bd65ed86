"""Converts values of staging columns to what the protobuf library takes."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from headrace.core.types import DataType, Decimal, Primitive, Timestamp
from headrace.formats import text_values as text
from headrace.formats.protobuf.field_kinds import FieldKind, inner_message, is_map
from headrace.formats.protobuf.read_values import DURATION_SECONDS_MAX, SECONDS_MAX, SECONDS_MIN, enum_names

Convert = Callable[[Any], Any]
"""Returns the value of a field. Raises MisfitError."""
Fill = Callable[[Any, Any], None]
"""Fills a message, its first argument, with a value. Raises MisfitError."""
UINT32_MAX, UINT64_MAX = (1 << 32) - 1, (1 << 64) - 1
_MICROS, _NANOS_OF_MICROS = 1_000_000, 1_000


class MisfitError(Exception):
    """A value does not fit its field; the text is the reason."""


_AS_IS: dict[FieldKind, set[DataType]] = {
    FieldKind.BOOL: {Primitive.BOOL},
    FieldKind.INT32: {Primitive.INT32},
    FieldKind.INT64: {Primitive.INT32, Primitive.INT64},
    FieldKind.FLOAT: {Primitive.FLOAT32},
    FieldKind.DOUBLE: {Primitive.FLOAT32, Primitive.FLOAT64},
    FieldKind.STRING: {Primitive.STRING},
    FieldKind.BYTES: {Primitive.BINARY},
}
_INTEGERS: set[DataType] = {Primitive.INT32, Primitive.INT64}


def scalar_converter(kind: FieldKind, field: FieldDescriptor, dtype: DataType) -> Convert | None:
    """The converter of values of a column to those of a field without a message; None if they do not fit."""
    if dtype in _AS_IS.get(kind, ()):
        return lambda value: value
    match kind, dtype:
        case FieldKind.UINT32, _ if dtype in _INTEGERS:
            return lambda value: _unsigned(value, UINT32_MAX)
        case FieldKind.UINT64, _ if dtype in _INTEGERS:
            return lambda value: _unsigned(value, UINT64_MAX)
        case FieldKind.UINT64, Decimal(_, 0):
            return lambda value: _unsigned(int(value), UINT64_MAX)
        case FieldKind.STRING, Decimal():
            return lambda value: f"{value:f}"
        case FieldKind.ENUM, Primitive.STRING:
            return _enum_name(field)
        case FieldKind.ENUM, Primitive.INT32:
            return _enum_number(field)
        case _:
            return None


def message_filler(kind: FieldKind, dtype: DataType, pool: DescriptorPool) -> Fill | None:
    """The filler of a message that is a single value; None if the column does not fit.

    pool   the types that an Any may hold
    """
    match kind, dtype:
        case FieldKind.TIMESTAMP, Timestamp():
            return _timestamp
        case FieldKind.DURATION, Primitive.INT64:
            return _duration
        case FieldKind.JSON, Primitive.STRING:
            return lambda message, value: _json(message, value, pool)
        case FieldKind.DECIMAL, Decimal(precision, scale):
            return lambda message, value: _decimal(message, value, precision, scale)
        case _:
            return None


def _unsigned(value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise MisfitError(f"{value} is not between 0 and {most}")
    return value


def _enum_name(field: FieldDescriptor) -> Convert:
    """Takes the names of the enum, also of aliases, and numbers as they are read."""
    assert field.enum_type is not None, "a field of an enum"
    numbers = {each.name: each.number for each in field.enum_type.values}
    check = _enum_number(field)

    def convert(value: str) -> int:
        if value in numbers:
            return numbers[value]
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(text.INT32_MAX)):
            number = int(value)
            if str(number) == value and text.INT32_MIN <= number <= text.INT32_MAX:
                return int(check(number))
        raise MisfitError(f"{value!r:.40} is no name of the enum")

    return convert


def _enum_number(field: FieldDescriptor) -> Convert:
    """A closed enum has no other numbers than its own."""
    assert field.enum_type is not None, "a field of an enum"
    known = frozenset(enum_names(field)) if field.enum_type.is_closed else None

    def convert(value: int) -> int:
        if known is not None and value not in known:
            raise MisfitError(f"{value} is no number of the enum")
        return value

    return convert


def _timestamp(message: Any, value: int) -> None:
    seconds, micros = divmod(value, _MICROS)
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise MisfitError("a time outside of the years 1 to 9999")
    message.seconds, message.nanos = seconds, micros * _NANOS_OF_MICROS


def _duration(message: Any, value: int) -> None:
    seconds, micros = divmod(abs(value), _MICROS)
    if seconds > DURATION_SECONDS_MAX or (seconds == DURATION_SECONDS_MAX and micros):
        raise MisfitError("a duration of more than 10,000 years")
    sign = -1 if value < 0 else 1
    message.seconds, message.nanos = sign * seconds, sign * micros * _NANOS_OF_MICROS


def _json(message: Message, value: str, pool: DescriptorPool) -> None:
    try:
        json_format.Parse(value, message, descriptor_pool=pool)
    except (json_format.Error, ValueError, TypeError, RecursionError) as cause:
        raise MisfitError(f"a text that is no JSON of {message.DESCRIPTOR.name}: {cause}") from cause
    _order_maps(message, pool)


def _order_maps(message: Any, pool: DescriptorPool) -> None:
    """Serializes the messages in Anys again: the library does so with maps in any order."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Any" and message.type_url:
        descriptor = pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
        inner = message_factory.GetMessageClass(descriptor).FromString(message.value)
        _order_maps(inner, pool)
        message.value = type(inner).SerializeToString(inner, deterministic=True)
        return
    for field, value in type(message).ListFields(message):
        item = inner_message(field).fields_by_name["value"] if is_map(field) else field
        if item.message_type is None:
            continue
        values = value.values() if is_map(field) else value if field.is_repeated else [value]
        for each in values:
            _order_maps(each, pool)


def _decimal(message: Any, value: decimal.Decimal, precision: int, scale: int) -> None:
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    needed = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    message.value = unscaled.to_bytes(needed, "big", signed=True)
    message.precision, message.scale = precision, scale
