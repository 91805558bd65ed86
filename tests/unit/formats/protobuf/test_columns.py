"""Columns for fields of messages, and columns that do not hold them."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.core.types import parse_type, schema_of
from headrace.formats.protobuf import columns
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.rows import RowReader
from support.protobuf.sources import proto3, schema

TYPES = "enum E { Z = 0; } message Line { int32 x = 1; } message None {} "


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("double a = 1;", "float64 not null"),
        ("float a = 1;", "float32 not null"),
        ("int32 a = 1;", "int32 not null"),
        ("sint32 a = 1;", "int32 not null"),
        ("sfixed32 a = 1;", "int32 not null"),
        ("int64 a = 1;", "int64 not null"),
        ("sint64 a = 1;", "int64 not null"),
        ("sfixed64 a = 1;", "int64 not null"),
        ("uint32 a = 1;", "int64 not null"),
        ("fixed32 a = 1;", "int64 not null"),
        ("uint64 a = 1;", "decimal(20,0) not null"),
        ("fixed64 a = 1;", "decimal(20,0) not null"),
        ("bool a = 1;", "bool not null"),
        ("string a = 1;", "string not null"),
        ("bytes a = 1;", "binary not null"),
        ("E a = 1;", "string not null"),
        ("optional int32 a = 1;", "int32"),
        ("oneof o { int32 a = 1; }", "int32"),
        ("repeated int32 a = 1;", "[int32 not null] not null"),
        ("Line a = 1;", "{x: int32 not null}"),
        ("repeated Line a = 1;", "[{x: int32 not null} not null] not null"),
        ("map<int32, Line> a = 1;", "[{key: int32 not null, value: {x: int32 not null} not null} not null] not null"),
        ("None a = 1;", "bool not null"),
        ("google.protobuf.Empty a = 1;", "bool not null"),
        ("google.protobuf.Timestamp a = 1;", "timestamp"),
        ("google.protobuf.Duration a = 1;", "int64"),
        ("google.protobuf.Int32Value a = 1;", "int32"),
        ("google.protobuf.UInt64Value a = 1;", "decimal(20,0)"),
        ("google.protobuf.StringValue a = 1;", "string"),
        ("google.protobuf.Struct a = 1;", "string"),
        ("google.protobuf.Value a = 1;", "string"),
        ("google.protobuf.ListValue a = 1;", "string"),
        ("google.protobuf.Any a = 1;", "string"),
        ("google.protobuf.FieldMask a = 1;", "string"),
        ("repeated google.protobuf.Timestamp a = 1;", "[timestamp not null] not null"),
    ],
)
def test_the_column_of_a_field(field: str, column: str) -> None:
    message = proto3(f"{TYPES} message M {{ {field} }}").message("t.M")
    assert columns_of(message) == schema_of({"a": column})
    RowReader(columns_of(message), message)


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ('syntax = "proto2"; message M { required int32 a = 1; }', "int32 not null"),
        ('syntax = "proto2"; message M { optional int32 a = 1 [default = 3]; }', "int32"),
        ('syntax = "proto2"; message M { optional group A = 1 { required int32 x = 1; } }', "{x: int32 not null}"),
        ('edition = "2023"; message M { int32 a = 1; }', "int32"),
        ('edition = "2023"; message M { int32 a = 1 [features.field_presence = IMPLICIT]; }', "int32 not null"),
        ('edition = "2023"; message M { int32 a = 1 [features.field_presence = LEGACY_REQUIRED]; }', "int32 not null"),
        (
            'edition = "2024"; message M { N a = 1 [features.message_encoding = DELIMITED]; } message N {int32 x = 1;}',
            "{x: int32}",
        ),
    ],
)
def test_presence_by_syntax(source: str, column: str) -> None:
    (found,) = columns_of(schema(source).message("M"))
    assert found.type_text == column


@pytest.mark.parametrize(
    ("field", "column", "message"),
    [
        ("int64 a = 1;", "int32", "column a: int64 cannot be read as int32\n  declare int64 not null"),
        ("int64 a = 1;", "timestamp", "column a: int64 cannot be read as timestamp"),
        ("uint32 a = 1;", "int32", "uint32 cannot be read as int32\n  declare int64 not null"),
        ("uint64 a = 1;", "decimal(19,0)", "uint64 cannot be read as decimal(19,0)"),
        ("int32 a = 1;", "decimal(20,0)", "int32 cannot be read as decimal(20,0)"),
        ("double a = 1;", "float32", "double cannot be read as float32"),
        ("string a = 1;", "binary", "string cannot be read as binary"),
        ("E a = 1;", "int64", "enum cannot be read as int64"),
        (
            "repeated int32 a = 1;",
            "int32",
            "repeated int32 cannot be read as int32\n  declare [int32 not null] not null",
        ),
        ("int32 a = 1;", "[int32]", "int32 cannot be read as [int32]"),
        ("repeated int32 a = 1;", "[string]", "column a[]: repeated int32 cannot be read as string"),
        ("Line a = 1;", "string", "message cannot be read as string\n  declare {x: int32 not null}"),
        ("Line a = 1;", "{x: string}", "column a.x: int32 cannot be read as string"),
        ("None a = 1;", "int32", "message without fields cannot be read as int32"),
        ("int32 a = 1;", "{x: int32}", "int32 cannot be read as {x: int32}"),
        ("map<int32, int32> a = 1;", "[{k: int32, v: int32}]", "a map cannot be read as"),
        ("map<int32, int32> a = 1;", "[{key: string, value: int32}]", "column a[].key: int32 cannot be read as string"),
        ("google.protobuf.Timestamp a = 1;", "int64", "Timestamp cannot be read as int64\n  declare timestamp"),
        ("google.protobuf.Int64Value a = 1;", "int32", "int64 cannot be read as int32\n  declare int64"),
    ],
)
def test_columns_that_do_not_hold_a_field(field: str, column: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        RowReader(schema_of({"a": column}), proto3(f"{TYPES} message M {{ {field} }}").message("t.M"))
    assert message in str(refused.value)


RECURSIVE = "message M { int32 v = 1; N n = 2; map<string, M> by_name = 3; } message N { repeated M m = 1; }"


def test_recursion_is_refused_with_its_place() -> None:
    message = proto3(RECURSIVE).message("t.M")
    with pytest.raises(UserError, match=r"column n\.m: the Protobuf message t\.M contains itself"):
        columns_of(message)
    for column in ("n: {m: [{v: int32}]}", "by_name: [{key: string, value: {v: int32}}]"):
        fields, _ = parse_type(f"{{{column}}}")
        name = column.partition(":")[0]
        with pytest.raises(UserError, match=rf"column {name}.*: the Protobuf message t\.M contains itself"):
            RowReader(schema_of({name: str(fields.fields[0].type)}), message)  # type: ignore[union-attr]


def test_a_recursive_field_without_a_column_is_no_fault() -> None:
    message = proto3(RECURSIVE).message("t.M")
    reader = RowReader(schema_of({"v": "int32 not null"}), message)
    assert reader.read(message.made(v=4, n={"m": [{"v": 5}]}).SerializeToString()) == [4]


def test_columns_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level has two of the next, so that a short schema has very many columns."""
    levels = (
        "".join(f"message L{n} {{ L{n + 1} a = 1; L{n + 1} b = 2; }} " for n in range(10))
        + "message L10 { int32 x = 1; }"
    )
    message = proto3(levels).message("t.L0")
    assert len(columns_of(message)) == 2
    monkeypatch.setattr(columns, "COLUMNS_MAX", 1_000)
    with pytest.raises(UserError, match="more than 1,000 columns"):
        columns_of(message)


def test_levels_have_a_bound() -> None:
    levels = "".join(f"message L{n} {{ L{n + 1} a = 1; }} " for n in range(40)) + "message L40 { int32 x = 1; }"
    with pytest.raises(UserError, match="32 levels"):
        columns_of(proto3(levels).message("t.L0"))


def test_columns_without_a_field_are_known() -> None:
    message = proto3("message M { int32 a = 1; Line line = 2; } message Line { int32 x = 1; }").message("t.M")
    reader = RowReader(schema_of({"a": "int32", "b": "int32", "line": "{x: int32, y: int32}"}), message)
    assert reader.missing == ["b", "line.y"]
