"""What fastavro makes of a message of a writer's schema that is read by a reader's: a judge of our resolution.

Where the library differs by design, its value is corrected here: floats are rounded, defaults completed and typed,
values without their meaning get it. Deviations that stay are not generated: see `docs/formats.md`.
"""

from __future__ import annotations

import decimal
import io
import uuid
from typing import Any

import fastavro
import numpy as np

from headrace.formats.avro.schema import Array, AvroType, Enum, Fixed, Logical, Map, Plain, PlainKind, Record, Union

_MEANING = ("logicalType", "precision", "scale")


class Library:
    """Reads messages of `written` as `reading`, both of them schemas as JSON; `reader` is the latter, parsed."""

    def __init__(self, written: Any, reading: Any, reader: Record) -> None:
        self._written = fastavro.parse_schema(_plain(written))
        self._reading = fastavro.parse_schema(_plain(reading))
        self._reader = reader

    def read(self, message: bytes) -> list[object] | None:
        """The staged row; None where the library refuses the message."""
        try:
            value = fastavro.schemaless_reader(io.BytesIO(message), self._written, self._reading)
        except (ValueError, EOFError, IndexError, fastavro.read.SchemaResolutionError):
            return None
        row: dict[str, object] = _converted(self._reader, value)
        return list(row.values())


def entries_once(value: Any) -> Any:
    """A staged value whose maps have each key once, as a dict has."""
    if isinstance(value, dict):
        return {name: entries_once(inner) for name, inner in value.items()}
    if not isinstance(value, list):
        return value
    items = [entries_once(item) for item in value]
    if items and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in items):
        return list({item["key"]: item for item in items}.values())
    return items


def _plain(schema: Any) -> Any:
    """The schema without logical types."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if isinstance(schema, dict):
        return {name: _plain(inner) for name, inner in schema.items() if name not in _MEANING}
    return schema


def _converted(reader: AvroType, value: Any) -> Any:
    match reader:
        case Plain() | Fixed():
            return _leaf(reader, value)
        case Enum():
            return value
        case Array(items):
            return [_converted(items, item) for item in value]
        case Map(values):
            return [{"key": key, "value": _converted(values, item)} for key, item in value.items()]
        case Record(_, fields):
            return {item.name: _converted(item.type, value.get(item.name, item.default)) for item in fields}
        case Union(branches):
            return _branch(branches, value)


def _branch(branches: tuple[AvroType, ...], value: Any) -> Any:
    values = [branch for branch in branches if branch != Plain(PlainKind.NULL)]
    if value is None:
        return None
    taken = next(branch for branch in values if _is_of(branch, value))
    converted = _converted(taken, value)
    if len(values) == 1:
        return converted
    return {_label(branch): converted if branch is taken else None for branch in values}


def _label(branch: AvroType) -> str:
    match branch:
        case Plain(kind):
            return str(kind)
        case Fixed(name) | Enum(name) | Record(name):
            return name
        case Array():
            return "array"
        case _:
            raise AssertionError("a branch that is not generated")


def _is_of(branch: AvroType, value: Any) -> bool:
    match branch:
        case Plain(PlainKind.BOOLEAN):
            return isinstance(value, bool)
        case Plain(PlainKind.STRING) | Enum():
            return isinstance(value, str)
        case Plain(PlainKind.BYTES) | Fixed():
            return isinstance(value, bytes)
        case Plain():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Array():
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _leaf(reader: Plain | Fixed, value: Any) -> Any:
    kind = reader.kind if isinstance(reader, Plain) else None
    if kind is PlainKind.FLOAT:
        return float(np.float32(np.int64(value))) if isinstance(value, int) else float(np.float32(value))
    if kind is PlainKind.DOUBLE:
        return float(value)
    if kind in (None, PlainKind.BYTES) and isinstance(value, str):
        value = value.encode("latin-1")
    return value if reader.logical is None else _meant(reader.logical, value)


def _meant(logical: Logical, value: Any) -> Any:
    match logical.name:
        case "decimal":
            unscaled = int.from_bytes(value, "big", signed=True)
            digits = decimal.Decimal(abs(unscaled)).as_tuple().digits
            found = decimal.Decimal((int(unscaled < 0), digits, -logical.scale))
            return found if logical.precision <= 38 else f"{found:f}"
        case "timestamp-millis" | "local-timestamp-millis":
            return value * 1_000
        case "uuid" if isinstance(value, bytes):
            return str(uuid.UUID(bytes=value))
        case "duration":
            parts = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
            return dict(zip(("months", "days", "millis"), parts, strict=True))
        case _:
            return value
