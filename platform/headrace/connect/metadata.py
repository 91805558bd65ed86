"""Metadata that a source can offer for a record beside its value, and the schema of a source's bad records."""

from __future__ import annotations

from headrace.core.types import DataType, Field, ListOf, Primitive, Schema, Struct, schema_of

_HEADER = Struct((Field("key", Primitive.STRING, nullable=False), Field("value", Primitive.BINARY)))

_PLAIN = schema_of(
    {
        "topic": "string not null",
        "partition": "int32 not null",
        "offset": "int64 not null",
        "timestamp": "timestamp",
        "key": "binary",
    }
)
_HEADERS: DataType = ListOf(_HEADER)

METADATA: dict[str, Field] = {item.name: item for item in _PLAIN} | {"headers": Field("headers", _HEADERS)}
"""Metadata field to its type; a connector offers some of them (`SourceConfig.metadata_fields`)."""

BAD_SCHEMA = Schema(
    (*_PLAIN, Field("value", Primitive.BINARY), Field("reason", Primitive.STRING, nullable=False)),
)
"""Columns of a source's side output `bad`; `value` holds the message unchanged."""
