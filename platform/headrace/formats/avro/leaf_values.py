"""Converts single values, as fastavro reads them without their meaning, to values of staging columns."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Callable

import numpy as np

from headrace.core.types import DataType, Decimal
from headrace.formats import text_values as text
from headrace.kernels.avro_instruction import Instruction
from headrace.kernels.decode.avro_program import Op, Text

Convert = Callable[[object], object]
"""Returns the value of a staging column. Raises BadValueError."""
_SCALE_MAX = 10_000
"""Largest magnitude of the scale of a decimal that carries its own: its text has so many digits."""


class BadValueError(Exception):
    """A value is none of its type, or its column cannot hold it; the text is the reason."""


def leaf_converter(instruction: Instruction, dtype: DataType) -> Convert:
    """The converter of an instruction without a body, to a column of this type."""
    match instruction.op:
        case Op.BOOL | Op.FLOAT32 | Op.FLOAT32_FLOAT64 | Op.FLOAT64 | Op.BINARY | Op.FIXED:
            return lambda value: value
        case Op.STRING:
            return _string
        case Op.DECIMAL:
            assert isinstance(dtype, Decimal)
            return _decimal(instruction.first, instruction.second, dtype)
        case Op.UUID:
            return _uuid
        case Op.DURATION:
            return _duration
        case Op.TEXT:
            return _text(instruction, dtype)
        case _:
            return _integer(instruction)


def _integer(instruction: Instruction) -> Convert:
    convert = _scaled(instruction)
    if not instruction.count:
        return convert

    def convert_int(value: object) -> object:
        assert isinstance(value, int)
        if not text.INT32_MIN <= value <= text.INT32_MAX:
            raise BadValueError(f"{value} is no int")
        return convert(value)

    return convert_int


def _scaled(instruction: Instruction) -> Convert:
    def scale(value: object) -> object:
        assert isinstance(value, int)
        scaled = value * instruction.first
        if not text.INT64_MIN <= scaled <= text.INT64_MAX:
            raise BadValueError(f"{value} is a time beyond microseconds of 64 bits")
        return scaled

    match instruction.op:
        case Op.SCALED:
            return scale
        case Op.FLOORED:
            return lambda value: value // 1_000  # type: ignore[operator]
        case Op.INTEGER_FLOAT32 | Op.INTEGER_FLOAT32_FLOAT64:
            # from all 64 bits at once: by way of a float64 some would be rounded twice
            return lambda value: float(np.float32(np.int64(value)))  # type: ignore[arg-type]
        case Op.INTEGER_FLOAT64:
            return float  # type: ignore[return-value]
        case _:
            return lambda value: value


def _string(value: object) -> object:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as cause:
        raise BadValueError(f"not UTF-8: byte 0x{_bytes(value)[cause.start]:02x} at {cause.start}") from cause


def _uuid(value: object) -> object:
    digits = _bytes(value).hex()
    return "-".join(digits[begin:end] for begin, end in itertools.pairwise((0, 8, 12, 16, 20, 32)))


def _duration(value: object) -> object:
    data = _bytes(value)
    names = ("months", "days", "millis")
    return {name: int.from_bytes(data[at : at + 4], "little") for name, at in zip(names, (0, 4, 8), strict=True)}


def _decimal(precision: int, shift: int, dtype: Decimal) -> Convert:
    """precision: of the writer; shift: digits of the column's scale beyond the writer's."""
    declared, limit, power = 10**precision, 10**dtype.precision, 10 ** abs(shift)

    def convert(value: object) -> object:
        unscaled = _unscaled(_bytes(value))
        if abs(unscaled) >= declared:
            raise BadValueError(f"a decimal of more than {precision} digits")
        rest = 0
        if shift >= 0:
            unscaled *= power
        else:
            whole, rest = divmod(abs(unscaled), power)
            unscaled = whole if unscaled > 0 else -whole
        if rest or abs(unscaled) >= limit:
            raise BadValueError(f"a decimal that {dtype} does not hold exactly")
        return _made(unscaled, dtype.scale)

    return convert


def _text(instruction: Instruction, dtype: DataType) -> Convert:
    match Text(instruction.first):
        case Text.DECIMAL:
            return lambda value: _decimal_text(_unscaled(_bytes(value)), instruction.second)
        case Text.BIG_DECIMAL:
            return lambda value: _own_scale(*_big_decimal(_bytes(value)), dtype)
        case Text.VARIABLE_SCALE:
            return lambda value: _own_scale(*_variable_scale(value), dtype)
        case Text.ZONED_TIMESTAMP:
            return _zoned_timestamp


def _own_scale(unscaled: int, scale: int, dtype: DataType) -> object:
    """A decimal that carries its scale."""
    if abs(scale) > _SCALE_MAX:
        raise BadValueError(f"a decimal with a scale of {scale}")
    if not isinstance(dtype, Decimal):
        return _decimal_text(unscaled, scale)
    found = text.fit_decimal(_made(unscaled, scale), dtype.precision, dtype.scale)
    if found is None:
        raise BadValueError(f"a decimal that {dtype} does not hold exactly")
    return found


def _decimal_text(unscaled: int, scale: int) -> str:
    return f"{_made(unscaled, scale):f}"


def _made(unscaled: int, scale: int) -> decimal.Decimal:
    digits = decimal.Decimal(abs(unscaled)).as_tuple().digits
    return decimal.Decimal((int(unscaled < 0), digits, -scale))


def _big_decimal(data: bytes) -> tuple[int, int]:
    """Its bytes hold the digits as bytes of their own, then the scale as an int."""
    length, at = _varint(data, 0)
    digits = data[at : at + length]
    scale, end = _varint(data, at + max(length, 0))
    if length < 0 or end != len(data):
        raise BadValueError("no big-decimal")
    return _unscaled(digits), scale


def _variable_scale(value: object) -> tuple[int, int]:
    match list(value.values()):  # type: ignore[attr-defined]
        case [int(scale), bytes(digits)]:
            return _unscaled(digits), scale
        case _:
            raise BadValueError("no decimal with a scale")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer at `at` and the place behind it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise BadValueError("no big-decimal")


def _zoned_timestamp(value: object) -> object:
    found = text.parse_timestamp(str(_string(value)))
    if found is None:
        raise BadValueError("a text that is no time")
    return found


def _unscaled(digits: bytes) -> int:
    if not digits:
        raise BadValueError("a decimal without digits")
    return int.from_bytes(digits, "big", signed=True)


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value
