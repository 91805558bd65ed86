"""The bytes of a field's default: its JSON value in Avro's binary form. Lets programs read defaults as messages.

A record's default is completed by the defaults of its fields; texts of bytes and fixed stand for one byte a character.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from headrace.formats.avro.schema import Array, AvroType, Enum, Fixed, Map, Plain, PlainKind, Record, Union, type_name


class DefaultError(Exception):
    """A default is not of its field's type; the text is the reason."""


def default_bytes(avro: AvroType, value: object) -> bytes:
    """The bytes of a default. Raises DefaultError. A union's is of the first branch that it fits."""
    match avro, value:
        case Plain(kind), _:
            return _plain(kind, value)
        case Fixed(), str():
            data = _latin(avro, value)
            if len(data) == avro.size:
                return data
        case Enum(), str() if value in avro.symbols:
            return varint(avro.symbols.index(value))
        case Array(items), list():
            return _blocks(len(value), b"".join(default_bytes(items, item) for item in value))
        case Map(values), dict():
            entries = (_sized(key.encode()) + default_bytes(values, item) for key, item in value.items())
            return _blocks(len(value), b"".join(entries))
        case Record(), dict():
            return b"".join(_field(avro, value))
        case Union(branches), _:
            for index, branch in enumerate(branches):
                try:
                    return varint(index) + default_bytes(branch, value)
                except DefaultError:
                    continue
        case _:
            pass
    raise _misfit(avro, value)


def varint(value: int) -> bytes:
    """An int or long: zigzag, seven bits a byte."""
    rest = (value << 1) ^ (value >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _plain(kind: PlainKind, value: object) -> bytes:
    avro = Plain(kind)
    match kind, value:
        case PlainKind.NULL, None:
            return b""
        case PlainKind.BOOLEAN, bool():
            return bytes([value])
        case ((PlainKind.INT | PlainKind.LONG), int()) if type(value) is int:
            bits = 31 if kind is PlainKind.INT else 63
            if -(1 << bits) <= value < 1 << bits:
                return varint(value)
        case PlainKind.FLOAT, (int() | float()) if type(value) is not bool:
            return _float("<f", avro, value)
        case PlainKind.DOUBLE, (int() | float()) if type(value) is not bool:
            return _float("<d", avro, value)
        case PlainKind.STRING, str():
            return _sized(value.encode())
        case PlainKind.BYTES, str():
            return _sized(_latin(avro, value))
        case _:
            pass
    raise _misfit(avro, value)


def _float(form: str, avro: AvroType, value: float) -> bytes:
    try:
        return struct.pack(form, value)
    except (OverflowError, struct.error) as cause:
        raise _misfit(avro, value) from cause


def _field(record: Record, value: Mapping[str, object]) -> list[bytes]:
    written = []
    for item in record.fields:
        if item.name not in value and not item.has_default:
            raise DefaultError(f"the default of {type_name(record)} lacks field {item.name!r}, which has no default")
        written.append(default_bytes(item.type, value.get(item.name, item.default)))
    return written


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def _blocks(count: int, items: bytes) -> bytes:
    return varint(count) + items + b"\0" if count else b"\0"


def _latin(avro: AvroType, value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError as cause:
        raise _misfit(avro, value) from cause


def _misfit(avro: AvroType, value: object) -> DefaultError:
    return DefaultError(f"the default {value!r:.40} is no {type_name(avro)}")
