"""Random Avro messages for a writer's schema: clean ones, and wild ones that may be anything."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

from fuzz.generators.damage import damaged
from headrace.formats.avro.schema import Array, AvroType, Enum, Fixed, Map, Plain, PlainKind, Record, Union
from support.avro.binary import encoded

_CHARACTERS = "aZ09 \0é\u2028名\U0001f600\U0010ffff"
_YEARS_US = 400 * 365 * 86_400 * 1_000_000
_VARINTS = (
    *(b"\x80", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01", b"\x80\x00"),
    *(b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\x01", b"\x03", b"\xfe" + b"\xff" * 8 + b"\x01"),
)


class Messages:
    """Writes messages of one schema."""

    def __init__(self, writer: AvroType) -> None:
        self._writer = writer

    def clean(self, chance: Random) -> bytes:
        """A message whose values fit their types."""
        return encoded(self._writer, random_value(chance, self._writer))

    def wild(self, chance: Random) -> bytes:
        """A message with values at the edge of their types; half of them are damaged."""
        data = encoded(self._writer, random_value(chance, self._writer, edge=0.2))
        roll = chance.random()
        if roll < 0.5:
            return data
        if roll < 0.65:
            at = chance.randrange(len(data) + 1)
            return data[:at] + chance.choice(_VARINTS) + data[at + chance.randrange(2) :]
        return damaged(chance, data)


def random_value(chance: Random, avro: AvroType, edge: float = 0.0) -> Any:
    """A value as `encoded` takes it. edge: the share of values that are none of their type."""
    match avro:
        case Plain():
            return _plain(chance, avro, edge)
        case Fixed(_, size):
            if avro.logical is not None and avro.logical.name == "decimal":
                digits = _decimal(chance, avro.logical.precision, size, edge)
                sign = b"\xff" if digits[:1] >= b"\x80" else b"\0"
                return digits.rjust(size, sign)[-size:]
            return chance.randbytes(size)
        case Enum(_, symbols):
            return chance.randrange(-1, len(symbols) + 1) if chance.random() < edge else chance.randrange(len(symbols))
        case Array(items):
            return [random_value(chance, items, edge) for _ in range(_count(chance))]
        case Map(values):
            return [(_text(chance), random_value(chance, values, edge)) for _ in range(_count(chance))]
        case Record(_, fields):
            return [random_value(chance, item.type, edge) for item in fields]
        case Union(branches):
            index = chance.randrange(len(branches))
            return index, random_value(chance, branches[index], edge)


def _plain(chance: Random, avro: Plain, edge: float) -> Any:
    logical = avro.logical
    match avro.kind:
        case PlainKind.NULL:
            return None
        case PlainKind.BOOLEAN:
            return chance.randrange(4) if chance.random() < edge else chance.randrange(2)
        case PlainKind.INT:
            return _integer(chance, 34 if chance.random() < edge else 32)
        case PlainKind.LONG:
            if logical is not None and chance.random() >= edge:
                return chance.randrange(-_YEARS_US, _YEARS_US) // (1_000 if "millis" in logical.name else 1)
            return _integer(chance, 64)
        case PlainKind.FLOAT:
            return _float(chance, "<f", edge)
        case PlainKind.DOUBLE:
            return _float(chance, "<d", edge)
        case PlainKind.BYTES if logical is not None and logical.name == "decimal":
            return _decimal(chance, logical.precision, 20, edge)
        case PlainKind.BYTES if chance.random() < 0.5:
            return chance.randbytes(_length(chance))
        case _:
            return chance.randbytes(_length(chance)) if chance.random() < edge else _text(chance)


def _integer(chance: Random, bits: int) -> int:
    limit = 1 << bits - 1
    drawn = chance.randrange(-limit, limit) >> chance.randrange(bits)
    return chance.choice((drawn, drawn, -limit, limit - 1, chance.randrange(-70, 70)))


def _float(chance: Random, form: str, edge: float) -> float:
    value: float = struct.unpack(form, chance.randbytes(struct.calcsize(form)))[0]
    if not math.isnan(value) or chance.random() < edge:
        return chance.choice((value, 0.0, -0.0, 1.5, math.inf, -math.inf))
    return 0.1


def _decimal(chance: Random, precision: int, bytes_max: int, edge: float) -> bytes:
    limit = 10**precision * (10 if chance.random() < edge else 1)
    unscaled = chance.choice((chance.randrange(limit), chance.randrange(100) % limit, limit - 1, 0)) * chance.choice(
        (1, -1)
    )
    unscaled = max(min(unscaled, (1 << bytes_max * 8 - 1) - 1), -(1 << bytes_max * 8 - 1))
    if chance.random() < edge:
        return b""
    needed = unscaled.bit_length() // 8 + 1
    # more bytes than needed say the same
    size = min(bytes_max, needed + chance.choice((0, 0, 0, 3)))
    return unscaled.to_bytes(max(size, needed), "big", signed=True)


def _text(chance: Random) -> str:
    return "".join(chance.choices(_CHARACTERS, k=_length(chance))) if chance.random() < 0.5 else "x" * _length(chance)


def _length(chance: Random) -> int:
    return 2_000 if chance.random() < 0.003 else chance.choice((chance.randrange(14), chance.randrange(40)))


def _count(chance: Random) -> int:
    return 130 if chance.random() < 0.005 else chance.choice((0, 0, 1, 2, 3))
