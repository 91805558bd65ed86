"""Schemas as a pipeline file writes them: a mapping of column name to type, structs as nested mappings, lists as `[T]`.

Owns both directions. The file form includes `Timestamp.unit`, which is not part of a type's identity: sources need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, assert_never

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic import Field as Extra

from headrace.core.errors import UserError
from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, parse_type
from headrace.spec.findings import Finding, FindingsError, collecting, wrong
from headrace.spec.wording import kind_of

_COMMA = 'quote the type if it holds a comma, such as ["decimal(10,2)"]'


def check_column_name(name: str) -> str:
    """The name. Raises ValueError for a name that is reserved for headrace, or that Arrow has no form for."""
    if not name:
        raise wrong("a column has no name")
    if "\0" in name:
        raise wrong(f"column {name!r}: a name has no NUL character", on_key=True)
    if name.startswith(HIDDEN_PREFIX):
        raise wrong(f"column {name!r}: names that begin with {HIDDEN_PREFIX} are headrace's own", on_key=True)
    return name


COLUMNS_SCHEMA = {"type": "array", "items": {"title": "column", "type": "string"}}
"""JSON schema of `[col, ..]`."""


def listed_name(item: object, before: list[str]) -> str:
    """A column name of a list, after the names in `before`. Raises ValueError for another value, and for a second
    one."""
    if not isinstance(item, str):
        raise wrong(f"takes a column name, not {kind_of(item)}", "to compute a column, write `name: expression`")
    if item in before:
        raise wrong(f"column {item!r} is listed twice", "list it once")
    return check_column_name(item)


def _column_list(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if isinstance(data, str) or not isinstance(data, list):
        raise wrong(
            f"takes a list of columns, not {kind_of(data)}", f"write [{data}]" if isinstance(data, str) else None
        )
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            names.append(listed_name(item, names))
    if findings:
        raise FindingsError(findings)
    return tuple(names)


ColumnList = Annotated[tuple[str, ...], BeforeValidator(_column_list), WithJsonSchema(COLUMNS_SCHEMA)]
"""`[col, ..]`."""


def read_schema(data: object) -> Schema:
    """A schema from its file form (a Schema is returned unchanged). Raises FindingsError with paths inside `data`."""
    if isinstance(data, Schema):
        return data
    return Schema(_read_fields(data))


def schema_dict(schema: Schema) -> dict[str, Any]:
    """The file form of a schema: column name to type text, list or nested mapping."""
    return {item.name: _file_form(item.type, nullable=item.nullable) for item in schema}


def type_text(dtype: DataType) -> str:
    """A type as text, with the unit of a timestamp."""
    match dtype:
        case Timestamp(unit):
            return "timestamp" if unit == "ms" else f"timestamp({unit})"
        case ListOf(inner, nullable):
            return f"[{type_text(inner)}]" if nullable else f"[{type_text(inner)} not null]"
        case Struct(fields):
            return "{" + ", ".join(f"{item.name}: {_nullable_text(item.type, item.nullable)}" for item in fields) + "}"
        case Primitive() | Decimal():
            return str(dtype)
        case _:
            assert_never(dtype)


def _nullable_text(dtype: DataType, nullable: bool) -> str:  # noqa: FBT001 - private, named at both calls
    return type_text(dtype) if nullable else f"{type_text(dtype)} not null"


def _file_form(dtype: DataType, *, nullable: bool) -> object:
    match dtype:
        case Struct(fields) if nullable:
            return {item.name: _file_form(item.type, nullable=item.nullable) for item in fields}
        case ListOf(inner, inner_nullable) if nullable:
            return [_file_form(inner, nullable=inner_nullable)]
        case _:
            return _nullable_text(dtype, nullable)


def _read_fields(data: object) -> tuple[Field, ...]:
    if not isinstance(data, Mapping):
        raise wrong(f"takes a mapping of column name to type, not {kind_of(data)}", "write `name: type`, one a line")
    if not data:
        raise wrong("has no columns", "write `name: type`, one a line")
    fields: list[Field] = []
    findings: list[Finding] = []
    for name, value in data.items():
        with collecting(findings, str(name)):
            fields.append(Field(check_column_name(str(name)), *_read_type(value)))
    if findings:
        raise FindingsError(findings)
    return tuple(fields)


def _read_type(data: object) -> tuple[DataType, bool]:
    match data:
        case Mapping():
            return Struct(_read_fields(data)), True
        case list() | tuple():
            return _read_list(data), True
        case str():
            return _read_text(data)
        case None:
            raise wrong("a column has no type", "write a type after the colon, such as string, int64 or timestamp")
        case _:
            raise wrong(f"a type is text, a list or a mapping, not {data!r}")


def _read_list(data: list[object] | tuple[object, ...]) -> ListOf:
    if len(data) != 1:
        raise wrong(f"a list type holds exactly one type, not {len(data)}", _COMMA)
    try:
        return ListOf(*_read_type(data[0]))
    except FindingsError as found:
        raise FindingsError([finding.under("0") for finding in found.findings]) from found


def _read_text(text: str) -> tuple[DataType, bool]:
    try:
        return parse_type(text)
    except UserError as error:
        raise wrong(error.message, error.remedy) from error


_TYPE = {
    "title": "type",
    "anyOf": [
        {"type": "string", "description": "a type such as int64, string not null, decimal(10,2), timestamp, [string]"},
        {"type": "array", "minItems": 1, "maxItems": 1, "description": "a list of one type"},
        {"type": "object", "description": "a struct: field name to type"},
    ],
}

Columns = Annotated[
    Schema,
    PlainValidator(read_schema),
    PlainSerializer(schema_dict, return_type=dict),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _TYPE}),
]
"""A schema in a model: read from and written to its file form."""

ColumnName = Annotated[str, AfterValidator(check_column_name), Extra(json_schema_extra={"format": "column"})]
"""The name of a visible column."""
