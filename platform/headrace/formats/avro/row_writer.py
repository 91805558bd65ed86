"""Writes Avro messages one by one: the reference for the kernel, which runs the same program, and its reasons.

Values are those of staging columns: times are integers, float32 a float.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Iterator
from typing import Any

from headrace.core.errors import DataError
from headrace.core.types import ListOf
from headrace.formats import text_values as text
from headrace.formats.avro.defaults import varint
from headrace.kernels.avro_encode import AvroWriting, Put, fields_of
from headrace.kernels.avro_instruction import Instruction

Write = Callable[[Any], bytes]
"""Returns the bytes of a value. Raises DataError."""


class RowWriter:
    """Writes rows of one program."""

    def __init__(self, writing: AvroWriting) -> None:
        self._writing = writing
        self._code = writing.instructions
        self._fields, self._first = fields_of(writing.columns)
        self._names = [item.name for item in self._fields]
        self._places = [item.name for item in writing.columns] + [""] * (len(self._fields) - len(writing.columns))
        for index, first in enumerate(self._first):
            is_list = isinstance(self._fields[index].type, ListOf)
            for child in range(first, first + self._child_count(index)):
                self._places[child] = self._places[index] + ("[]" if is_list else f".{self._names[child]}")
        self._write = self._record(0, len(self._code))

    def write(self, row: dict[str, Any]) -> bytes:
        """The message of one row. Raises DataError with the column that does not fit the schema."""
        return self._write(row)

    def _child_count(self, index: int) -> int:
        dtype = self._fields[index].type
        return 1 if isinstance(dtype, ListOf) else len(getattr(dtype, "fields", ()))

    def _record(self, begin: int, end: int) -> Write:
        """Writes the values of a struct, each by the instructions of its field."""
        parts = [(self._names[self._code[at].column], self._value(at)) for at in self._siblings(begin, end)]
        # a constant has no column: what is there for it does not count
        return lambda row: b"".join(write(row.get(name)) for name, write in parts)

    def _siblings(self, begin: int, end: int) -> Iterator[int]:
        while begin < end:
            yield begin
            begin = self._code[begin].jump or begin + 1

    def _value(self, at: int) -> Write:
        instruction = self._code[at]
        place = self._places[instruction.column]
        match instruction.op:
            case Put.CONSTANT:
                data = self._writing.pool[instruction.first : instruction.first + instruction.count]
                return lambda _: data
            case Put.REQUIRED:
                return _required(place)
            case Put.NULLABLE:
                return self._nullable(at)
            case Put.RECORD:
                return self._record(at + 1, instruction.jump)
            case Put.ARRAY:
                return self._array(at)
            case Put.UNION:
                return self._union(at)
            case _:
                convert = self._leaf(instruction)
                return lambda value: _placed(place, convert, value)

    def _nullable(self, at: int) -> Write:
        instruction = self._code[at]
        absent, present = varint(instruction.first), varint(instruction.second)
        inner = self._value(at + 1)
        return lambda value: absent if value is None else present + inner(value)

    def _array(self, at: int) -> Write:
        writers = [self._value(one) for one in self._siblings(at + 1, self._code[at].jump)]

        def write(value: Any) -> bytes:
            items = b"".join(b"".join(write(item) for write in writers) for item in value)
            return varint(len(value)) + items + b"\0" if value else b"\0"

        return write

    def _union(self, at: int) -> Write:
        instruction = self._code[at]
        place = self._places[instruction.column]
        branches = [
            (self._names[self._code[one].column], varint(self._code[one].first), self._value(one + 1))
            for one in self._siblings(at + 1, instruction.jump)
        ]

        def write(value: Any) -> bytes:
            if value is None and instruction.first >= 0:
                return varint(instruction.first)
            found = [branch for branch in branches if value is not None and value[branch[0]] is not None]
            if len(found) != 1:
                raise _misfit(place, f"{len(found)} branches of the union are set")
            ((name, index, inner),) = found
            return index + inner(value[name])

        return write

    def _symbols(self, first: int, count: int) -> list[str]:
        pool = self._writing.pool
        places = self._writing.symbols[first : first + count]
        return [pool[begin : begin + length].decode() for begin, length in places]

    def _leaf(self, instruction: Instruction) -> Write:
        first, count = instruction.first, instruction.count
        match instruction.op:
            case Put.INT | Put.LONG:
                return varint
            case Put.FLOORED:
                return lambda value: varint(value // 1_000)
            case Put.MULTIPLIED:
                return lambda value: _multiplied(value, first)
            case Put.FLOAT:
                return lambda value: struct.pack("<f", value)
            case Put.FLOAT_DOUBLE | Put.DOUBLE:
                return lambda value: struct.pack("<d", value)
            case Put.BOOL:
                return lambda value: bytes([value])
            case Put.TEXT:
                return _text
            case Put.FIXED:
                return lambda value: _fixed(value, count)
            case Put.ENUM:
                pool, symbols = self._writing.pool, self._writing.symbols[first : first + count]
                indices = {
                    pool[begin : begin + length].decode(): varint(i) for i, (begin, length) in enumerate(symbols)
                }
                return lambda value: _symbol(value, indices)
            case Put.DECIMAL:
                return lambda value: _decimal(value, first, count)
            case _:
                raise AssertionError(f"{instruction.op} has no value")


class _MisfitError(Exception):
    """A value does not fit the schema."""


def _placed(place: str, write: Write, value: Any) -> bytes:
    try:
        return write(value)
    except _MisfitError as misfit:
        raise _misfit(place, str(misfit)) from None


def _misfit(place: str, what: str) -> DataError:
    return DataError(f"column {place}: {what}", remedy="filter or correct such rows before the sink")


def _required(place: str) -> Write:
    def write(value: Any) -> bytes:
        if value is None:
            raise _misfit(place, "NULL, where the Avro schema has no null")
        return b""

    return write


def _multiplied(value: int, factor: int) -> bytes:
    if not text.INT64_MIN <= value * factor <= text.INT64_MAX:
        raise _MisfitError("a time beyond nanoseconds of 64 bits")
    return varint(value * factor)


def _text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(len(data)) + data


def _fixed(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise _MisfitError(f"{len(value)} bytes, where the Avro schema has a fixed of {size}")
    return value


def _symbol(value: str, indices: dict[str, bytes]) -> bytes:
    found = indices.get(value)
    if found is None:
        raise _MisfitError(f"{value!r:.40} is no symbol of the enum")
    return found


def _decimal(value: decimal.Decimal, digits: int, size: int) -> bytes:
    sign, numerals, _ = value.as_tuple()
    unscaled = int("".join(map(str, numerals))) * (-1 if sign else 1)
    if digits and abs(unscaled) >= 10**digits:
        raise _MisfitError(f"a decimal of more than {digits} digits")
    needed = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    if size < 0:
        return varint(needed) + unscaled.to_bytes(needed, "big", signed=True)
    if needed > size:
        raise _MisfitError(f"a decimal that a fixed of {size} bytes does not hold")
    return unscaled.to_bytes(size, "big", signed=True)
