"""Random frames of a schema: everyday values and those at the edge of their type, in one chunk or in many."""

from __future__ import annotations

import decimal
import math
import struct
from random import Random

import polars as pl

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.doubtful_rows import staged_frame
from headrace.formats.writable_times import TEXT_DAYS

_DAY_US = 86_400 * 1_000_000
_CHARACTERS = '"\\\0\x01\x1f\x7f\b\t\n\f\r/<>& aZ09\x80\xa0éß\u2028\u2029\ufeff\ufffd名\U0001f600\U0010ffff'
_LONG = 3_000
_ITEMS_MANY = 200
_INT_EDGES = (0, 1, 9, 10, 99_999_999, 100_000_000, 10**16 - 1, 10**16, 10**18)


def random_frame(chance: Random, schema: Schema) -> pl.DataFrame:
    """Up to 300 rows; at times a slice of more, or several chunks that do not lie alike in all columns."""
    count = chance.choice((0, 1, 2, 7, 8, 9, 63, 64, 65, 300))
    null_share = chance.choice((0.0, 0.0, 0.1, 0.9))
    rows = [[_nullable(chance, item, null_share) for item in schema] for _ in range(count)]
    frame = staged_frame(schema, rows)
    if chance.random() < 0.3:
        begin = chance.randrange(count + 1)
        frame = frame.slice(begin, chance.randrange(count - begin + 1))
    if chance.random() < 0.3:
        frame = frame.with_columns(_chunked(chance, column) for column in frame.get_columns())
    return frame


def _chunked(chance: Random, column: pl.Series) -> pl.Series:
    cut = chance.randrange(len(column) + 1)
    return column.head(cut).append(column.slice(cut))


def _nullable(chance: Random, field: Field, null_share: float) -> object:
    if field.nullable and chance.random() < null_share:
        return None
    return _value(chance, field.type, null_share)


def _value(chance: Random, dtype: DataType, null_share: float) -> object:
    match dtype:
        case Primitive():
            return _primitive(chance, dtype)
        case Timestamp():
            return _timestamp(chance)
        case Decimal(precision, scale):
            return _decimal(chance, precision, scale)
        case ListOf(inner, nullable):
            count = _ITEMS_MANY if chance.random() < 0.01 else chance.choice((0, 0, 1, 2, 3))
            item = Field("", inner, nullable)
            return [_nullable(chance, item, null_share) for _ in range(count)]
        case Struct(fields):
            return {item.name: _nullable(chance, item, null_share) for item in fields}


def _primitive(chance: Random, dtype: Primitive) -> object:
    match dtype:
        case Primitive.BOOL:
            return chance.random() < 0.5
        case Primitive.INT32:
            return _integer(chance, 32)
        case Primitive.INT64:
            return _integer(chance, 64)
        case Primitive.FLOAT32:
            return _float32(chance)
        case Primitive.FLOAT64:
            return _float64(chance)
        case Primitive.STRING:
            return _text(chance)
        case Primitive.BINARY:
            return chance.randbytes(_length(chance))
        case Primitive.DATE:
            first, end = TEXT_DAYS
            return chance.choice(
                (chance.randrange(first, end), chance.randrange(-3_000_000, 3_000_000), first, end - 1)
            )


def _integer(chance: Random, bits: int) -> int:
    limit = 1 << bits - 1
    edge = chance.choice(_INT_EDGES) * chance.choice((1, -1)) + chance.randrange(-1, 2)
    drawn = (chance.randrange(-limit, limit) >> chance.randrange(bits), edge, -limit, limit - 1, chance.randrange(1000))
    value = chance.choice(drawn)
    return value if -limit <= value < limit else -limit


def _float64(chance: Random) -> float:
    value: float = struct.unpack("<d", chance.randbytes(8))[0]
    return chance.choice((value, _everyday(chance), _edge(chance, 308)))


def _float32(chance: Random) -> float:
    value: float = struct.unpack("<f", chance.randbytes(4))[0]
    drawn = chance.choice((value, _everyday(chance), _edge(chance, 38)))
    # staged as float64: it must not become infinite by the cast alone
    return drawn if math.isnan(drawn) or math.isinf(drawn) or abs(drawn) < 3.4e38 else 1.0


def _everyday(chance: Random) -> float:
    return round(chance.random() * 10.0 ** chance.randrange(8), chance.randrange(5))


def _edge(chance: Random, exponent_max: int) -> float:
    power = 10.0 ** chance.randrange(-exponent_max - 6, exponent_max + 1)
    return chance.choice(
        (power, -power, 0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 2.0 ** chance.randrange(-149, 127))
    )


def _timestamp(chance: Random) -> int:
    first, end = (day * _DAY_US for day in TEXT_DAYS)
    near = chance.randrange(-(10**17), 4 * 10**17)
    return chance.choice(
        (near, near // 1000 * 1000, near // 10**6 * 10**6, chance.randrange(first, end), first, end - 1)
    )


def _decimal(chance: Random, precision: int, scale: int) -> decimal.Decimal:
    limit = 10**precision
    unscaled = chance.choice(
        (0, 1, limit - 1, chance.randrange(limit), chance.randrange(10 ** chance.randint(0, precision)))
    )
    digits = tuple(map(int, str(unscaled)))
    return decimal.Decimal((chance.randrange(2), digits, -scale))


def _text(chance: Random) -> str:
    length = _length(chance)
    if chance.random() < 0.5:
        return (
            "x" * chance.randrange(length + 1) + chance.choice(_CHARACTERS) * chance.randrange(2) + "y" * (length // 2)
        )
    return "".join(chance.choices(_CHARACTERS, k=length))


def _length(chance: Random) -> int:
    return _LONG if chance.random() < 0.005 else chance.choice((chance.randrange(14), chance.randrange(50)))
