"""Random CSV lines for a schema and dialect: clean ones as producers send them, and wild ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from fuzz.generators.damage import damaged
from fuzz.generators.numbers import (
    broken_number,
    edge_decimal,
    edge_float,
    edge_integer,
    plain_decimal,
    plain_float,
    plain_integer,
)
from fuzz.generators.text_values import (
    edge_base64,
    edge_date,
    edge_epoch,
    edge_timestamp,
    plain_base64,
    plain_date,
    plain_epoch,
    plain_timestamp,
)
from fuzz.generators.texts import BROKEN_UTF8, EDGE_PIECES, figures, pieces, plain_text
from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.csv.line import Dialect
from headrace.formats.text_values import INT32_MAX, INT64_MAX

_DELIMITERS = (",", ";", "\t", "|", " ", ":", "\x01", "\0", "/", "\x7f", "=", '"', "_")
_QUOTES = ('"', "'", "`", "\x02", "\0", "/", "=", " ", ":", ",")
_PLAIN_QUOTES = 4
_NULLS = ("", "", "", "\\N", "NULL", "null", "NA", "-", " ", "0", "é", "\0", "x" * 13, "true", "nan", "2024-01-01")
_BREAKS = ("", "\n", "\r\n")
_EDGE_BREAKS = (*_BREAKS, "\r", "\n\n", "\r\r\n", "\n\r", " \n", "\n ", "\x0b", "\x85", "\u2028", "\x0c")
_SPECIAL_FLOATS = ("nan", "NaN", "-nan", "inf", "-inf", "+Infinity", "INF", "infinit", "na", "+-inf", "1e400", "-1e309")
_Write = Callable[[Random], str]
_Forms = tuple[_Write, _Write]
"""A plain value of one type, and one at its edge."""


@dataclass(frozen=True, slots=True)
class Mood:
    """How one line is written. Shares lie between 0 and 1.

    edge   of values at the edge of their type
    wrong  of values of another type
    null   of NULLs where they may be
    lost   of NULLs where they may not be
    quoted of fields that are quoted without need
    broken of fields that are quoted wrongly, or of another number of fields
    """

    edge: float = 0.0
    wrong: float = 0.0
    null: float = 0.1
    lost: float = 0.0
    quoted: float = 0.05
    broken: float = 0.0


_CLEAN = (Mood(), Mood(quoted=0.5), Mood(quoted=1.0), Mood(null=0.5))
_WILD = (
    *(Mood(edge=0.1), Mood(edge=0.3, quoted=0.3), Mood(edge=1.0), Mood(wrong=0.05), Mood(wrong=0.2, edge=0.2)),
    *(Mood(lost=0.05, null=0.5), Mood(broken=0.05), Mood(broken=0.2, quoted=0.5), Mood(wrong=1.0)),
)


class Lines:
    """Writes lines with these fields. `columns`: their names, of which some may not be the schema's."""

    def __init__(self, schema: Schema, dialect: Dialect, columns: Sequence[str]) -> None:
        self._dialect = dialect
        self._writers = [_field_writer(schema.get(name), dialect) for name in columns]
        self._special = f"{dialect.delimiter}{dialect.quote}\r\n"

    def clean(self, chance: Random) -> bytes:
        """A line that fits the schema, without doubled quotes."""
        fields = self._fields(chance, chance.choice(_CLEAN))
        return f"{self._dialect.delimiter.join(fields)}{chance.choice(_BREAKS)}".encode()

    def wild(self, chance: Random) -> bytes:
        """A line that may be anything; half of them fit the schema."""
        mood, roll = chance.choice(_WILD), chance.random()
        fields = self._fields(chance, mood)
        if chance.random() < mood.broken:
            at = chance.randrange(len(fields) + 1)
            fields[at : at + chance.randrange(2)] = [""] * chance.randrange(2)
        line = self._dialect.delimiter.join(fields)
        data = f"{line}{chance.choice(_BREAKS if roll < 0.9 else _EDGE_BREAKS)}".encode("utf-8", "surrogateescape")
        if roll < 0.01:
            return "".join(chance.choices(f"{self._special}a1 ", k=chance.randrange(12))).encode()
        return damaged(chance, data) if roll < 0.15 else data

    def _fields(self, chance: Random, mood: Mood) -> list[str]:
        return [write(chance, mood) for write in self._writers]


def random_dialect(chance: Random) -> tuple[Dialect, bool]:
    """A dialect, and whether plain values of every type can be written in it without a doubled quote or a NUL."""
    delimiter, quote = chance.choice(_DELIMITERS), chance.choice(_QUOTES)
    if delimiter == quote:
        delimiter, quote = ",", '"'
    null = chance.choice(_NULLS)
    if any(character in null for character in (delimiter, quote)):
        null = ""
    return Dialect(delimiter, quote, null), quote in _QUOTES[:_PLAIN_QUOTES] and null != "\0"


def _field_writer(field: Field | None, dialect: Dialect) -> Callable[[Random, Mood], str]:
    """Writes a column's field; one of a name that is none of the schema's if `field` is None."""
    plain, edge = _any_forms if field is None else _forms(field.type)
    nullable = field is None or field.nullable
    quote, null = dialect.quote, dialect.null
    special = (dialect.delimiter, quote, "\r", "\n")

    def write(chance: Random, mood: Mood) -> str:
        if chance.random() < (mood.null if nullable else mood.lost):
            return null
        if mood.wrong and chance.random() < mood.wrong:
            text = _wrong(chance)
        else:
            text = edge(chance) if mood.edge and chance.random() < mood.edge else plain(chance)
        if mood.broken and chance.random() < mood.broken:
            return _broken(chance, text, dialect)
        if text == null or chance.random() < mood.quoted or any(character in text for character in special):
            return f"{quote}{text.replace(quote, quote * 2)}{quote}"
        return text

    return write


def _broken(chance: Random, text: str, dialect: Dialect) -> str:
    """A field whose quotes do not fit, or whose text needs some."""
    quote = dialect.quote
    at = chance.randrange(len(text) + 1)
    odd = chance.choice(
        (quote, dialect.delimiter, "\n", "\r", "\r\n", quote * 2, quote * 3, chance.choice(BROKEN_UTF8))
    )
    text = f"{text[:at]}{odd}{text[at:]}"
    before, after = chance.choice(
        (("", ""), (quote, quote), (quote, ""), ("", quote), (" " + quote, quote), (quote, quote + " "))
    )
    return f"{before}{text}{after}"


def _wrong(chance: Random) -> str:
    forms = chance.choice(tuple(_PRIMITIVES.values()))
    return broken_number(chance) if chance.random() < 0.3 else chance.choice(forms)(chance)


def _forms(dtype: DataType) -> _Forms:
    match dtype:
        case Primitive():
            return _PRIMITIVES[dtype]
        case Decimal():
            return lambda chance: plain_decimal(chance, dtype), lambda chance: edge_decimal(chance, dtype)
        case Timestamp():
            return _timestamp(dtype)
        case ListOf() | Struct():
            raise AssertionError("CSV has no lists or structs")


def _timestamp(dtype: Timestamp) -> _Forms:
    def plain(chance: Random) -> str:
        return plain_timestamp(chance) if chance.random() < 0.5 else plain_epoch(chance, dtype)

    def edge(chance: Random) -> str:
        roll = chance.random()
        return (
            edge_timestamp(chance) if roll < 0.6 else edge_epoch(chance, dtype) if roll < 0.8 else _edge_integer(chance)
        )

    return plain, edge


def _edge_integer(chance: Random) -> str:
    """Also with signs and zeros in front, of which a reader may count the digits."""
    text, roll = edge_integer(chance), chance.random()
    if roll < 0.4:
        return text
    sign = "-" if text.startswith("-") else chance.choice(("", "+"))
    zeros = "0" * chance.choice((1, 2, 8, 15, 20, 30, 37, 38, 39, 40, 41, 60))
    return f"{sign}{zeros}{text.removeprefix('-')}" if roll < 0.8 else f"{chance.choice(('+', '-', '--', ' '))}{text}"


def _edge_float(chance: Random) -> str:
    """Also without digits on one side of the point, with a plus, zeros in front, or special ones."""
    text, roll = edge_float(chance), chance.random()
    if roll < 0.5:
        return text
    if roll < 0.6:
        return chance.choice(_SPECIAL_FLOATS)
    if roll < 0.7:
        return text.replace("0.", ".", 1)
    if roll < 0.8:
        return text.replace(".0", ".", 1)
    return f"+{text}" if roll < 0.9 else f"{'0' * chance.choice((1, 5, 19, 40))}{text}"


def _edge_bool(chance: Random) -> str:
    return chance.choice(("true", "false", "True", "t", "0", "1", "TRUE", "trueX", "falsy", "fals", "", "tru", "nul"))


def _edge_text(chance: Random) -> str:
    if chance.random() < 0.1:
        before, after = chance.randrange(30), chance.randrange(30)
        return f"{figures(chance, before)}{chance.choice(BROKEN_UTF8)}{figures(chance, after)}"
    return pieces(chance, (*EDGE_PIECES, '"', "'", "\r", "\n", "\0", "\t", "\r\n", '""'))


def _plain_text(chance: Random) -> str:
    text = plain_text(chance)
    return f"{text} {text}" if chance.random() < 0.2 else text


def _integers(largest: int) -> _Forms:
    return lambda chance: plain_integer(chance, largest), _edge_integer


_PRIMITIVES: dict[Primitive, _Forms] = {
    Primitive.BOOL: (lambda chance: chance.choice(("true", "false")), _edge_bool),
    Primitive.INT32: _integers(INT32_MAX),
    Primitive.INT64: _integers(INT64_MAX),
    Primitive.FLOAT32: (plain_float, _edge_float),
    Primitive.FLOAT64: (plain_float, _edge_float),
    Primitive.STRING: (_plain_text, _edge_text),
    Primitive.BINARY: (plain_base64, edge_base64),
    Primitive.DATE: (plain_date, edge_date),
}
_any_forms: _Forms = (_plain_text, _edge_text)
