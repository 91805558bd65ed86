"""Writes Avro's binary form of any value, explicit in everything: the index of a branch, of a symbol, bytes of a text.

A record is a sequence of values, a map one of pairs, a union `(index, value)`, an enum its index.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from headrace.formats.avro.defaults import varint
from headrace.formats.avro.schema import Array, AvroType, Enum, Fixed, Map, Plain, PlainKind, Record, Union


def encoded(avro: AvroType, value: Any) -> bytes:  # noqa: PLR0911 - one for each type
    """The bytes of a value."""
    match avro:
        case Plain(PlainKind.NULL):
            return b""
        case Plain(PlainKind.BOOLEAN):
            return bytes([value])
        case Plain(PlainKind.INT | PlainKind.LONG) | Enum():
            return varint(value)
        case Plain(PlainKind.FLOAT):
            return struct.pack("<f", value)
        case Plain(PlainKind.DOUBLE):
            return struct.pack("<d", value)
        case Plain():
            data = value.encode() if isinstance(value, str) else value
            return varint(len(data)) + data
        case Fixed(_, size):
            assert len(value) == size
            return bytes(value)
        case Array(items):
            return blocks([encoded(items, item) for item in value])
        case Map(values):
            text = Plain(PlainKind.STRING)
            return blocks([encoded(text, key) + encoded(values, item) for key, item in value])
        case Record(_, fields):
            return b"".join(encoded(item.type, inner) for item, inner in zip(fields, value, strict=True))
        case Union(branches):
            index, inner = value
            return varint(index) + encoded(branches[index], inner)


def blocks(items: Sequence[bytes], *, sized: bool = False) -> bytes:
    """Items of an array in one block, or in one for each item with its size before it."""
    if sized:
        return b"".join(varint(-1) + varint(len(item)) + item for item in items) + b"\0"
    return varint(len(items)) + b"".join(items) + b"\0" if items else b"\0"
