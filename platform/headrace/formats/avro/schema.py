"""Avro schemas: parses their JSON to types in which every name is resolved.

A named type stands wherever its name is used, so a tree of types is finite: a type that contains itself is refused with
its place. Both the text and the tree have bounds. Knows nothing of columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import orjson

from headrace.core.errors import UserError

SCHEMA_CHARACTERS_MAX = 1 << 20
"""Most characters of a schema's text."""
NESTING_MAX = 64
"""Most levels of types in each other: kernels call themselves once a level."""
TYPES_MAX = 20_000
"""Most types of a schema, a named one counted wherever it is used."""
DIGITS_MAX = 10_000
"""Largest precision of a decimal; one of more digits is read as the bytes that it is."""
FIXED_BYTES_MAX = 1 << 20
"""Largest size of a fixed."""


class PlainKind(StrEnum):
    """Types without parameters."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Logical:
    """What the values of a type mean. `precision` and `scale` are those of a decimal.

    name  an Avro logical type, or `zoned-timestamp` and `variable-scale-decimal` for those types of Debezium
    """

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Plain:
    """A type without parameters."""

    kind: PlainKind
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """`size` bytes. `name` is the full name."""

    name: str
    size: int
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols. `default`: what a reader takes for a symbol that it does not know."""

    name: str
    symbols: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """A list."""

    items: AvroType


@dataclass(frozen=True, slots=True)
class Map:
    """Text keys with values."""

    values: AvroType


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of the branches, none of which is a union."""

    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record. `default` is JSON; None also if there is none, which `has_default` tells."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: object = None
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields, in the order of their bytes."""

    name: str
    fields: tuple[RecordField, ...]
    aliases: tuple[str, ...] = ()
    logical: Logical | None = None


AvroType = Plain | Fixed | Enum | Array | Map | Union | Record

NULL = Plain(PlainKind.NULL)


def parse_schema(text: str, references: Sequence[str] = ()) -> AvroType:
    """The type that a schema's text describes. Raises UserError with the place in the schema.

    references: texts of schemas whose named types `text` may use, each behind those that it uses itself
    """
    parser = _Parser()
    for reference in references:
        parser.parse(reference)
    return parser.parse(text)


def short_name(full_name: str) -> str:
    """The name without its namespace."""
    return full_name.rpartition(".")[2]


def type_name(avro: AvroType) -> str:
    """The name of a union's branch: that of the type, a named one's without namespace."""
    match avro:
        case Plain(kind):
            return str(kind)
        case Array():
            return "array"
        case Map():
            return "map"
        case Union():
            return "union"
        case Fixed(name) | Enum(name) | Record(name):
            return short_name(name)


def is_null(avro: AvroType) -> bool:
    """Whether the type is null."""
    return isinstance(avro, Plain) and avro.kind is PlainKind.NULL


_LONGS = {
    *("timestamp-millis", "timestamp-micros", "timestamp-nanos", "time-micros"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
}
_CONNECT_TIMES = {
    "io.debezium.time.Date": (PlainKind.INT, "date"),
    "io.debezium.time.Timestamp": (PlainKind.LONG, "timestamp-millis"),
    "io.debezium.time.MicroTimestamp": (PlainKind.LONG, "timestamp-micros"),
    "io.debezium.time.NanoTimestamp": (PlainKind.LONG, "timestamp-nanos"),
    "io.debezium.time.ZonedTimestamp": (PlainKind.STRING, "zoned-timestamp"),
}
"""Schemas that Kafka Connect's converters write for Debezium name the meaning of a type by `connect.name` alone."""
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"


@dataclass(frozen=True, slots=True)
class _Named:
    """A named type with the types and the levels in it; `type` is None while its fields are parsed."""

    type: AvroType | None
    types: int = 0
    levels: int = 0


@dataclass(slots=True)
class _Parser:
    """Parses schemas that share names. `types` counts the types of the schema that is parsed."""

    names: dict[str, _Named] = field(default_factory=dict)
    types: int = 0
    deepest: int = 0

    def parse(self, text: str) -> AvroType:
        if len(text) > SCHEMA_CHARACTERS_MAX:
            raise UserError(
                f"an Avro schema of {len(text):,} characters", remedy=f"at most {SCHEMA_CHARACTERS_MAX:,} are read"
            )
        self.types = self.deepest = 0
        try:
            parsed = orjson.loads(text)
        except orjson.JSONDecodeError as cause:
            # the text of a schema may be the bare name of a type
            if text.strip().replace(".", "").replace("_", "").isalnum():
                parsed = text.strip()
            else:
                raise UserError(f"an Avro schema that is not JSON: {cause}") from cause
        return self._type(parsed, "", _Place("", 1))

    def _type(self, schema: object, namespace: str, place: _Place) -> AvroType:
        self.types += 1
        self.deepest = max(self.deepest, place.level)
        if self.types > TYPES_MAX:
            raise UserError(f"an Avro schema of more than {TYPES_MAX:,} types, named ones counted at each use")
        if place.level > NESTING_MAX:
            raise place.error(f"more than {NESTING_MAX} types in each other")
        match schema:
            case str():
                return self._named(schema, namespace, place)
            case list():
                return self._union(schema, namespace, place)
            case dict():
                return self._object(schema, namespace, place)
            case _:
                raise place.error(f"{_shown(schema)} is no type")

    def _named(self, name: str, namespace: str, place: _Place) -> AvroType:
        if name in PlainKind.__members__.values():
            return Plain(PlainKind(name))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise place.error(f"there is no type {name!r}")
        if found.type is None:
            raise UserError(
                f"Avro schema: {place.text} is a {name} inside of a {name}",
                remedy="headrace reads no recursive types: columns have a fixed depth",
            )
        # counted here, because the fields are not visited again
        self.types += found.types
        self.deepest = max(self.deepest, place.level + found.levels)
        if self.types > TYPES_MAX:
            raise UserError(f"an Avro schema of more than {TYPES_MAX:,} types, named ones counted at each use")
        if self.deepest > NESTING_MAX:
            raise place.error(f"more than {NESTING_MAX} types in each other")
        return found.type

    def _union(self, schema: Sequence[object], namespace: str, place: _Place) -> AvroType:
        branches = tuple(self._type(branch, namespace, place.inside("")) for branch in schema)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise place.error("a union has one branch or more, none of them a union")
        keys = [branch.name if isinstance(branch, Fixed | Enum | Record) else type_name(branch) for branch in branches]
        if len(set(keys)) < len(keys):
            raise place.error("a union has two branches of one type")
        return Union(branches)

    def _object(self, schema: Mapping[str, object], namespace: str, place: _Place) -> AvroType:
        kind = schema.get("type")
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, place)
            case "enum":
                return self._enum(schema, namespace, place)
            case "fixed":
                return self._fixed(schema, namespace, place)
            case "array":
                return Array(self._items(schema, namespace, place))
            case "map":
                return Map(self._type(schema.get("values"), namespace, place.inside("{}")))
            case str():
                found = self._named(kind, namespace, place)
                return Plain(found.kind, _logical(schema, found)) if isinstance(found, Plain) else found
            case dict() | list():
                return self._type(kind, namespace, place.inside(""))
            case _:
                raise place.error(f"{_shown(schema)} has no type")

    def _items(self, schema: Mapping[str, object], namespace: str, place: _Place) -> AvroType:
        items = self._type(schema.get("items"), namespace, place.inside("[]"))
        if _has_no_bytes(items):
            raise place.error(
                f"items of type {type_name(items)} have no bytes: a short message may have any number of them"
            )
        return items

    def _record(self, schema: Mapping[str, object], namespace: str, place: _Place) -> AvroType:
        name, namespace = self._define(schema, namespace, place)
        before, above = self.types, self.deepest
        self.deepest = place.level
        items = schema.get("fields")
        if not isinstance(items, list):
            raise place.error(f"record {name} has no list of fields")
        fields = tuple(self._field(item, namespace, place) for item in items)
        if len({item.name for item in fields}) < len(fields):
            raise place.error(f"record {name} has two fields of one name")
        logical = Logical("variable-scale-decimal") if schema.get("connect.name") == _VARIABLE_SCALE else None
        made = Record(name, fields, _aliases(schema, namespace), logical)
        self.names[name] = _Named(made, self.types - before, self.deepest - place.level)
        self.deepest = max(self.deepest, above)
        return made

    def _field(self, schema: object, namespace: str, place: _Place) -> RecordField:
        name = schema.get("name") if isinstance(schema, dict) else None
        if not isinstance(schema, dict) or not isinstance(name, str) or "type" not in schema:
            raise place.error(f"{_shown(schema)} is no field: it needs a name and a type")
        avro = self._type(schema["type"], namespace, place.inside(f".{name}"))
        names = schema.get("aliases")
        aliases = tuple(map(str, names)) if isinstance(names, list) else ()
        return RecordField(name, avro, aliases, schema.get("default"), "default" in schema)

    def _enum(self, schema: Mapping[str, object], namespace: str, place: _Place) -> AvroType:
        name, namespace = self._define(schema, namespace, place)
        symbols, default = schema.get("symbols"), schema.get("default")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
            raise place.error(f"enum {name} has no list of symbols")
        if len(set(symbols)) < len(symbols):
            raise place.error(f"enum {name} has two symbols of one name")
        if default is not None and default not in symbols:
            raise place.error(f"the default of enum {name} is none of its symbols")
        made = Enum(name, tuple(symbols), _aliases(schema, namespace), cast("str | None", default))
        self.names[name] = _Named(made)
        return made

    def _fixed(self, schema: Mapping[str, object], namespace: str, place: _Place) -> AvroType:
        name, namespace = self._define(schema, namespace, place)
        size = schema.get("size")
        if type(size) is not int or not 0 <= size <= FIXED_BYTES_MAX:
            raise place.error(f"fixed {name} has a size of {_shown(size)}: 0 to {FIXED_BYTES_MAX:,} are read")
        made = Fixed(name, size, _aliases(schema, namespace))
        made = Fixed(name, size, made.aliases, _logical(schema, made))
        self.names[name] = _Named(made)
        return made

    def _define(self, schema: Mapping[str, object], namespace: str, place: _Place) -> tuple[str, str]:
        """The full name of a type and the namespace of names in it; its own name means recursion from here on."""
        name, own = schema.get("name"), schema.get("namespace")
        if not isinstance(name, str) or not name:
            raise place.error(f"a {schema['type']} has no name")
        if "." not in name:
            space = own if isinstance(own, str) else namespace
            name = f"{space}.{name}" if space else name
        if name in self.names:
            raise place.error(f"type {name} is defined twice")
        self.names[name] = _Named(None)
        return name, name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a schema the parser is."""

    path: str
    level: int

    @property
    def text(self) -> str:
        return f"field {self.path.lstrip('.')}" if self.path else "the schema"

    def inside(self, step: str) -> _Place:
        return _Place(self.path + step, self.level + 1)

    def error(self, what: str) -> UserError:
        return UserError(f"Avro schema: {self.text}: {what}" if self.path else f"Avro schema: {what}")


def _aliases(schema: Mapping[str, object], namespace: str) -> tuple[str, ...]:
    names = schema.get("aliases")
    if not isinstance(names, list):
        return ()
    return tuple(name if "." in name or not namespace else f"{namespace}.{name}" for name in map(str, names))


def _logical(schema: Mapping[str, object], avro: Plain | Fixed) -> Logical | None:
    """The logical type, if it is known and may stand at this type: the specification ignores others."""
    name, connect_name = schema.get("logicalType"), schema.get("connect.name")
    if isinstance(avro, Plain) and isinstance(connect_name, str) and connect_name in _CONNECT_TIMES:
        kind, meaning = _CONNECT_TIMES[connect_name]
        return Logical(meaning) if kind is avro.kind else None
    if not isinstance(name, str):
        return None
    if name == "decimal":
        return _decimal(schema, avro)
    match avro:
        case Plain(PlainKind.LONG):
            is_fit = name in _LONGS
        case Plain(PlainKind.INT):
            is_fit = name in {"date", "time-millis"}
        case Plain(PlainKind.STRING):
            is_fit = name == "uuid"
        case Plain(PlainKind.BYTES):
            is_fit = name == "big-decimal"
        case Fixed():
            is_fit = (name, avro.size) in {("uuid", 16), ("duration", 12)}
        case _:
            is_fit = False
    return Logical(name) if is_fit else None


def _decimal(schema: Mapping[str, object], avro: Plain | Fixed) -> Logical | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if (
        type(precision) is not int
        or type(scale) is not int
        or not 0 <= scale <= precision <= DIGITS_MAX
        or precision < 1
    ):
        return None
    is_fit = isinstance(avro, Fixed) or avro.kind is PlainKind.BYTES
    return Logical("decimal", precision, scale) if is_fit else None


def _has_no_bytes(avro: AvroType) -> bool:
    match avro:
        case Plain(kind):
            return kind is PlainKind.NULL
        case Fixed():
            return avro.size == 0
        case Record():
            return all(_has_no_bytes(item.type) for item in avro.fields)
        case _:
            return False


def _shown(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else f"{text[:40]}.."
