"""Parses one CSV line exactly: its fields, and each field as a value of its column's type.

The reference implementation: reads the lines that are in doubt for the kernel, and all lines without kernels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp, TimestampUnit
from headrace.formats import text_values as values
from headrace.formats.doubtful_rows import BadMessageError

# at most 40 digits, because `int` takes quadratic time
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class Dialect:
    """The syntax of lines: `delimiter` and `quote` are one character each, `null` is the unquoted text of NULL."""

    delimiter: str
    quote: str
    null: str


@dataclass(frozen=True, slots=True)
class FieldText:
    """The text of a field, without its quotes."""

    text: str
    quoted: bool


class MalformedLineError(BadMessageError):
    """A line that violates the dialect or the schema; the text is the reason."""


class LineReader:
    """Splits lines of one dialect into fields."""

    def __init__(self, dialect: Dialect) -> None:
        delimiter, quote = re.escape(dialect.delimiter), re.escape(dialect.quote)
        self._delimiter = dialect.delimiter
        self._quote = dialect.quote
        # possessive: there is nothing to go back to, and to remember it takes 90 bytes a character
        self._quoted = re.compile(f"{quote}([^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*+){quote}")
        self._plain = re.compile(f"[^{delimiter}\r\n]*")

    def fields(self, line: str) -> list[FieldText]:
        """The fields of a line; drops one line break at its end. Raises MalformedLineError."""
        line = without_line_break(line)
        fields = []
        place = 0
        while True:
            quoted = line.startswith(self._quote, place)
            match = (self._quoted if quoted else self._plain).match(line, place)
            if match is None:
                raise MalformedLineError(f"no closing quote after character {place}")
            text = match[1].replace(self._quote * 2, self._quote) if quoted else match[0]
            fields.append(FieldText(text, quoted))
            place = match.end()
            if place == len(line):
                return fields
            if line[place] != self._delimiter:
                what = "text after a closing quote" if quoted else "newline outside of quotes"
                raise MalformedLineError(f"{what} at character {place}")
            place += 1


class ValueReader:
    """Parses the fields of a line into the columns of a schema.

    `columns`: the names of a line's fields in order; names that the schema lacks are ignored.
    """

    def __init__(self, schema: Schema, dialect: Dialect, columns: Sequence[str]) -> None:
        self._lines = LineReader(dialect)
        self._null = dialect.null
        self._width = len(columns)
        places = {name: place for place, name in enumerate(columns)}
        self._columns = [(item, places.get(item.name), _parser(item.type)) for item in schema]

    def read(self, raw: bytes) -> list[object]:
        """A value for each column of the schema, in the type of `staging_type`. Raises MalformedLineError."""
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            raise MalformedLineError(f"not UTF-8: byte 0x{raw[error.start]:02x} at {error.start}") from error
        fields = self._lines.fields(line)
        if len(fields) != self._width:
            raise MalformedLineError(f"expected {self._width} fields, found {len(fields)}")
        row: list[object] = []
        for item, place, parse in self._columns:
            value = None
            if place is not None:
                field = fields[place]
                if field.quoted or field.text != self._null:
                    value = parse(field.text)
                    if value is None:
                        raise MalformedLineError(
                            f'field "{_shorten(item.name)}": expected {item.type}, found "{_shorten(field.text)}"'
                        )
            if value is None and not item.nullable:
                raise MalformedLineError(f'field "{_shorten(item.name)}" is not null but null')
            row.append(value)
        return row


def without_line_break(line: str) -> str:
    """The line without one line break at its end, LF or CRLF."""
    if line.endswith("\n"):
        line = line[:-1]
    return line.removesuffix("\r")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + ".."


def _parser(dtype: DataType) -> Callable[[str], object]:
    """The parser from a field's text to its value; it returns None for invalid text."""
    match dtype:
        case Primitive():
            return _PARSERS[dtype]
        case Decimal(precision, scale):
            return lambda text: values.parse_decimal(text, precision, scale)
        case Timestamp(unit):
            return lambda text: _timestamp(text, unit)
        case ListOf() | Struct():
            raise AssertionError("nested columns are rejected before a job runs")


def _bool(text: str) -> object:
    return {"true": True, "false": False}.get(text)


def _integer(text: str, low: int, high: int) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if low <= value <= high else None


def _float64(text: str) -> float | None:
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text)
    # `float` returns infinity for a number beyond its range
    if _FLOAT.fullmatch(text) is None or math.isinf(value := float(text)):
        return None
    return value


def _float32(text: str) -> float | None:
    value = _float64(text)
    if value is None or math.isinf(value):
        return value
    return None if abs(value) >= values.FLOAT32_LIMIT else value


def _timestamp(text: str, unit: TimestampUnit) -> int | None:
    micros = values.parse_timestamp(text)
    if micros is not None:
        return micros
    whole = _integer(text, values.INT64_MIN, values.INT64_MAX)
    return None if whole is None else values.scale_timestamp(whole, unit)


_PARSERS: dict[Primitive, Callable[[str], object]] = {
    Primitive.BOOL: _bool,
    Primitive.INT32: lambda text: _integer(text, values.INT32_MIN, values.INT32_MAX),
    Primitive.INT64: lambda text: _integer(text, values.INT64_MIN, values.INT64_MAX),
    Primitive.FLOAT32: _float32,
    Primitive.FLOAT64: _float64,
    Primitive.STRING: lambda text: text,
    Primitive.BINARY: values.parse_base64,
    Primitive.DATE: values.parse_date,
}
