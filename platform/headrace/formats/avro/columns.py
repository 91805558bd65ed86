"""Columns for Avro types, and the Avro schema made of columns: docs/formats.md has the table.

The schema made of columns is canonical: equal columns give equal text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson

from headrace.core.errors import UserError
from headrace.core.types import TIMESTAMP, DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.avro.schema import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Map,
    Plain,
    PlainKind,
    Record,
    Union,
    is_null,
    type_name,
)

DECIMAL_DIGITS_MAX = 38
RECORD_NAME = "headrace.Row"
"""The full name of the record made of columns, if the pipeline names none."""
DURATION = Struct(tuple(Field(name, Primitive.INT64, nullable=False) for name in ("months", "days", "millis")))
_PLAIN: dict[PlainKind, DataType] = {
    PlainKind.BOOLEAN: Primitive.BOOL,
    PlainKind.INT: Primitive.INT32,
    PlainKind.LONG: Primitive.INT64,
    PlainKind.FLOAT: Primitive.FLOAT32,
    PlainKind.DOUBLE: Primitive.FLOAT64,
    PlainKind.BYTES: Primitive.BINARY,
    PlainKind.STRING: Primitive.STRING,
}
_LOGICAL: dict[str, DataType] = {
    "date": Primitive.DATE,
    "time-millis": Primitive.INT32,
    "time-micros": Primitive.INT64,
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "timestamp-nanos": Primitive.INT64,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
    "local-timestamp-nanos": Primitive.INT64,
    "zoned-timestamp": TIMESTAMP,
    "uuid": Primitive.STRING,
    "big-decimal": Primitive.STRING,
    "variable-scale-decimal": Primitive.STRING,
    "duration": DURATION,
}
_WRITTEN: dict[Primitive, object] = {
    Primitive.BOOL: "boolean",
    Primitive.INT32: "int",
    Primitive.INT64: "long",
    Primitive.FLOAT32: "float",
    Primitive.FLOAT64: "double",
    Primitive.STRING: "string",
    Primitive.BINARY: "bytes",
    Primitive.DATE: {"type": "int", "logicalType": "date"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def columns_of(avro: AvroType) -> Schema:
    """The columns that hold every value of a record. Raises UserError for a type that no column holds."""
    if not isinstance(avro, Record):
        raise UserError(f"the Avro schema is {type_name(avro)}: columns need a record")
    return Schema(tuple(_field(item.name, item.type, item.name) for item in avro.fields))


def branch_names(union: Union) -> tuple[str, ...]:
    """The name of each branch as a column of a struct; that of a named type is whole where short ones are equal."""
    short = [type_name(branch) for branch in union.branches]
    return tuple(
        branch.name if isinstance(branch, Record | Enum | Fixed) and short.count(name) > 1 else name
        for branch, name in zip(union.branches, short, strict=True)
    )


def value_branches(union: Union) -> list[AvroType]:
    """The branches that are not null."""
    return [branch for branch in union.branches if not is_null(branch)]


def map_entries(values: DataType, *, nullable: bool) -> ListOf:
    """The type of a map's column."""
    entry = Struct((Field("key", Primitive.STRING, nullable=False), Field("value", values, nullable)))
    return ListOf(entry, nullable=False)


def _field(name: str, avro: AvroType, place: str) -> Field:
    dtype, nullable = _column(avro, place)
    return Field(name, dtype, nullable)


def _column(avro: AvroType, place: str) -> tuple[DataType, bool]:
    """The type of a column for an Avro type, and whether values may be NULL."""
    if isinstance(avro, Union):
        return _union_column(avro, place)
    if isinstance(avro, Plain | Fixed | Record) and avro.logical is not None:
        if avro.logical.name == "decimal":
            precision, scale = avro.logical.precision, avro.logical.scale
            return (Decimal(precision, scale) if precision <= DECIMAL_DIGITS_MAX else Primitive.STRING), False
        return _LOGICAL[avro.logical.name], False
    match avro:
        case Plain(PlainKind.NULL):
            raise UserError(f"Avro schema: field {place} is always null", remedy="leave it out of the columns")
        case Plain(kind):
            return _PLAIN[kind], False
        case Fixed():
            return Primitive.BINARY, False
        case Enum():
            return Primitive.STRING, False
        case Array(items):
            return ListOf(*_column(items, f"{place}[]")), False
        case Map(values):
            dtype, nullable = _column(values, f"{place}{{}}")
            return map_entries(dtype, nullable=nullable), False
        case Record():
            return _struct(avro, place), False


def _struct(record: Record, place: str) -> Struct:
    if not record.fields:
        raise UserError(f"Avro schema: field {place} is a record without fields", remedy="leave it out of the columns")
    return Struct(tuple(_field(item.name, item.type, f"{place}.{item.name}") for item in record.fields))


def _union_column(union: Union, place: str) -> tuple[DataType, bool]:
    values = value_branches(union)
    nullable = len(values) < len(union.branches)
    if not values:
        raise UserError(f"Avro schema: field {place} is always null", remedy="leave it out of the columns")
    if len(values) == 1:
        return _column(values[0], place)[0], nullable
    names = branch_names(union)
    fields = [
        Field(name, _column(branch, f"{place}.{name}")[0])
        for name, branch in zip(names, union.branches, strict=True)
        if not is_null(branch)
    ]
    return Struct(tuple(fields)), nullable


def schema_text(columns: Schema, record: str = RECORD_NAME) -> str:
    """The Avro schema of rows with these columns. Raises UserError for a name that Avro does not allow.

    A nullable column is `[null, T]` with the default null, so that a schema with one more is compatible. `record`: the
    full name; the record of a struct has its column's name, with the full name of the record above it as namespace.
    """
    if not all(_NAME.fullmatch(part) for part in record.split(".")):
        raise UserError(f"record: {record!r} is no name of an Avro record", remedy="write letters, digits, _ and .")
    return orjson.dumps(_record(record, columns.fields, "")).decode()


def _record(name: str, fields: Sequence[Field], place: str) -> dict[str, object]:
    space, _, short = name.rpartition(".")
    named = {"name": short, "namespace": space} if space else {"name": short}
    return {"type": "record", **named, "fields": [_record_field(item, name, place) for item in fields]}


def _record_field(item: Field, record: str, place: str) -> dict[str, object]:
    if not _NAME.fullmatch(item.name):
        raise UserError(
            f"column {place}{item.name!r}: Avro has no such name",
            remedy="rename it: names are letters, digits and _, without a digit in front",
        )
    written = _written(item.type, f"{record}.{item.name}_record", f"{place}{item.name}.")
    if item.nullable:
        return {"name": item.name, "type": ["null", written], "default": None}
    return {"name": item.name, "type": written}


def _written(dtype: DataType, record: str, place: str) -> object:
    match dtype:
        case Primitive():
            return _WRITTEN[dtype]
        case Decimal(precision, scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case Timestamp():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case ListOf(inner, nullable):
            items = _written(inner, record, place)
            return {"type": "array", "items": ["null", items] if nullable else items}
        case Struct(fields):
            return _record(record, fields, place)
