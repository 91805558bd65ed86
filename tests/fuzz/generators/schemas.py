"""Random schemas: every type, nested ones too, and names that are easily taken for each other."""

from __future__ import annotations

from random import Random

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, TimestampUnit

_NAMES = (
    *("a", "b", "ab", "abc", "A", "a b", "a.b", "id", "Id", "name", "value", "ts", "0", "-", "null", "true", "a,b"),
    "{",
    *(" ", "é", "größe", "名前", "\U0001f600", "ä" * 9, "x" * 31, "x" * 32, "x" * 33, "y" * 300, "/", "\x7f", "'"),
)
_ESCAPED_NAMES = ('a"b', "a\\b", "a\nb", "\x01")
_UNITS: tuple[TimestampUnit, ...] = ("s", "ms", "us")
_DECIMALS = ((1, 0), (1, 1), (9, 2), (10, 2), (18, 18), (19, 0), (37, 1), (38, 0), (38, 10), (38, 37), (38, 38))
_NESTING_MAX = 4
_CHILDREN_MAX = 5


def random_schema(chance: Random, *, nested: bool = True) -> Schema:
    """One to nine columns, rarely forty; each name once. A third have one or two columns, so that values stand alone.

    nested: with lists and structs
    """
    depth = 0 if nested else _NESTING_MAX
    roll = chance.random()
    count = chance.randint(1, 2) if roll < 0.35 else 40 if roll > 0.97 else chance.randint(3, 9)
    return Schema(_fields(chance, count, depth))


def _fields(chance: Random, count: int, depth: int) -> tuple[Field, ...]:
    names = [*_NAMES, *_ESCAPED_NAMES] if chance.random() < 0.02 else [*_NAMES]
    names += [f"column{index}" for index in range(count)]
    return tuple(
        Field(name, _type(chance, depth), nullable=chance.random() < 0.6) for name in chance.sample(names, count)
    )


def _type(chance: Random, depth: int) -> DataType:
    kind = chance.randrange(14 if depth < _NESTING_MAX else 11)
    if kind < 8:
        return tuple(Primitive)[kind]
    if kind == 8:
        return Timestamp(chance.choice(_UNITS))
    if kind < 11:
        return _decimal(chance)
    if kind == 11:
        return Struct(_fields(chance, chance.randint(1, _CHILDREN_MAX), depth + 1))
    return ListOf(_type(chance, depth + 1), nullable=chance.random() < 0.6)


def _decimal(chance: Random) -> Decimal:
    if chance.random() < 0.6:
        return Decimal(*chance.choice(_DECIMALS))
    precision = chance.randint(1, 38)
    return Decimal(precision, chance.randint(0, precision))
