"""What fields of messages mean: the kinds of their values, and the columns that hold them."""

from __future__ import annotations

from enum import StrEnum

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headrace.core.types import TIMESTAMP, DataType, Decimal, Primitive
from headrace.formats.protobuf.descriptors import google_files

UINT64_DIGITS = 20
_F = FieldDescriptor


class FieldKind(StrEnum):
    """The kind of one value, as errors name it."""

    BOOL = "bool"
    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    ENUM = "enum"
    MESSAGE = "message"
    EMPTY = "message without fields"
    TIMESTAMP = "Timestamp"
    DURATION = "Duration"
    JSON = "JSON"
    """Struct, Value, ListValue, FieldMask and Any."""
    DECIMAL = "Decimal"
    """confluent.type.Decimal: a message that may be read as a decimal."""


_SCALARS = {
    _F.TYPE_DOUBLE: FieldKind.DOUBLE,
    _F.TYPE_FLOAT: FieldKind.FLOAT,
    _F.TYPE_BOOL: FieldKind.BOOL,
    _F.TYPE_STRING: FieldKind.STRING,
    _F.TYPE_BYTES: FieldKind.BYTES,
    _F.TYPE_ENUM: FieldKind.ENUM,
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), FieldKind.INT32),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), FieldKind.INT64),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), FieldKind.UINT32),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), FieldKind.UINT64),
}
_GOOGLE_KINDS = {
    "google.protobuf.Timestamp": FieldKind.TIMESTAMP,
    "google.protobuf.Duration": FieldKind.DURATION,
    "google.protobuf.Struct": FieldKind.JSON,
    "google.protobuf.Value": FieldKind.JSON,
    "google.protobuf.ListValue": FieldKind.JSON,
    "google.protobuf.FieldMask": FieldKind.JSON,
    "google.protobuf.Any": FieldKind.JSON,
}
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_DECIMAL_FIELDS = {"value": FieldKind.BYTES, "precision": FieldKind.UINT32, "scale": FieldKind.INT32}

COLUMN_TYPES: dict[FieldKind, DataType] = {
    FieldKind.BOOL: Primitive.BOOL,
    FieldKind.INT32: Primitive.INT32,
    FieldKind.INT64: Primitive.INT64,
    FieldKind.UINT32: Primitive.INT64,
    FieldKind.UINT64: Decimal(UINT64_DIGITS, 0),
    FieldKind.FLOAT: Primitive.FLOAT32,
    FieldKind.DOUBLE: Primitive.FLOAT64,
    FieldKind.STRING: Primitive.STRING,
    FieldKind.BYTES: Primitive.BINARY,
    FieldKind.ENUM: Primitive.STRING,
    FieldKind.EMPTY: Primitive.BOOL,
    FieldKind.TIMESTAMP: TIMESTAMP,
    FieldKind.DURATION: Primitive.INT64,
    FieldKind.JSON: Primitive.STRING,
}
"""The column that holds every value of a kind; a message is a struct."""


def kind_of(field: FieldDescriptor) -> FieldKind:
    """The kind of a field's values; that of a wrapper is the kind of the value in it."""
    message = field.message_type
    if message is None:
        return _SCALARS[field.type]
    if is_wrapper(message):
        return kind_of(message.fields_by_name["value"])
    if message.full_name in _GOOGLE_KINDS and _is_google(message):
        return _GOOGLE_KINDS[message.full_name]
    if not message.fields:
        return FieldKind.EMPTY
    if message.full_name == "confluent.type.Decimal" and _has_fields(message, _DECIMAL_FIELDS):
        return FieldKind.DECIMAL
    return FieldKind.MESSAGE


def is_wrapper(message: Descriptor | None) -> bool:
    """Whether a message is one of Google's wrappers, such as `Int64Value`: a scalar that may be absent."""
    return message is not None and message.full_name in _WRAPPERS and _is_google(message)


def inner_message(field: FieldDescriptor) -> Descriptor:
    """The message that the values of a field are."""
    assert field.message_type is not None, "a field of messages"
    return field.message_type


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map: its items are then entries of `key` and `value`."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_google(message: Descriptor) -> bool:
    """Whether the message is Google's: another file may define its name, with other fields."""
    return message.file.name in google_files()


def _has_fields(message: Descriptor, fields: dict[str, FieldKind]) -> bool:
    return {each.name: kind_of(each) for each in message.fields} == fields
