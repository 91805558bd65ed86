"""Columns written as messages: the library reads back what was written, equal rows have equal bytes, and what does not
fit is refused with its column."""

from __future__ import annotations

import decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headrace.connect.format import Decoded, Messages
from headrace.core.errors import DataError, UserError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Struct, Timestamp, schema_of
from headrace.formats.doubtful_rows import staged_frame
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.decode import protobuf_decoder
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.encode import ProtobufEncoder
from support.protobuf.sources import proto3, schema

D = decimal.Decimal
TYPES = "enum E { Z = 0; ONE = 1; } message Line { int32 x = 1; } message None {} "


def message_type(field: str) -> MessageType:
    return proto3(f"{TYPES} message M {{ {field} }}").message("t.M")


def written(field: str, column: str, value: object) -> str:
    columns = schema_of({"a": column})
    (message,) = ProtobufEncoder(columns, message_type(field)).encode(staged_frame(columns, [[value]])).to_pylist()
    assert isinstance(message, bytes)
    return message.hex()


@pytest.mark.parametrize(
    ("field", "column", "value", "expected"),
    [
        ("int32 a = 1;", "int32", 0, ""),
        ("int32 a = 1;", "int32", -1, "08ffffffffffffffffff01"),
        ("optional int32 a = 1;", "int32", None, ""),
        ("optional int32 a = 1;", "int32", 0, "0800"),
        ("int64 a = 1;", "int32", 5, "0805"),
        ("uint32 a = 1;", "int64", (1 << 32) - 1, "08ffffffff0f"),
        ("uint64 a = 1;", "int64", 5, "0805"),
        ("uint64 a = 1;", "decimal(20,0)", D((1 << 64) - 1), "08ffffffffffffffffff01"),
        ("double a = 1;", "float32", 0.5, "09000000000000e03f"),
        ("string a = 1;", "string", "é", "0a02c3a9"),
        ("string a = 1;", "decimal(6,2)", D("1.50"), "0a04312e3530"),
        ("bytes a = 1;", "binary", b"\xff", "0a01ff"),
        ("E a = 1;", "string", "ONE", "0801"),
        ("E a = 1;", "string", "99", "0863"),
        ("E a = 1;", "string", "-1", "08ffffffffffffffffff01"),
        ("E a = 1;", "int32", 99, "0863"),
        ("repeated int32 a = 1;", "[int32]", [1, 2], "0a020102"),
        ("repeated int32 a = 1;", "[int32]", [], ""),
        ("repeated Line a = 1;", "[{x: int32}]", [{"x": 0}, {"x": 1}], "0a000a020801"),
        ("Line a = 1;", "{x: int32}", None, ""),
        ("Line a = 1;", "{x: int32}", {"x": 0}, "0a00"),
        (
            "map<string, int32> a = 1;",
            "[{key: string, value: int32}]",
            [{"key": "b", "value": 2}, {"key": "a", "value": 1}],
            "0a050a016110010a050a01621002",
        ),
        (
            "map<int32, Line> a = 1;",
            "[{key: int32, value: {x: int32}}]",
            [{"key": 0, "value": {"x": 0}}],
            "0a0408001200",
        ),
        ("map<int32, None> a = 1;", "[{key: int32, value: bool}]", [{"key": 0, "value": True}], "0a0408001200"),
        ("None a = 1;", "bool", True, "0a00"),
        ("None a = 1;", "bool", False, ""),
        ("repeated google.protobuf.Empty a = 1;", "[bool]", [True, True], "0a000a00"),
        ("google.protobuf.Int32Value a = 1;", "int32", None, ""),
        ("google.protobuf.Int32Value a = 1;", "int32", 0, "0a00"),
        ("google.protobuf.Timestamp a = 1;", "timestamp", 0, "0a00"),
        ("google.protobuf.Timestamp a = 1;", "timestamp", -1, "0a1108ffffffffffffffffff0110988cebdc03"),
        ("google.protobuf.Duration a = 1;", "int64", 1_000_000, "0a020801"),
        (
            "google.protobuf.Struct a = 1;",
            "string",
            '{"b": 1, "a": null}',
            "0a190a070a0161120208000a0e0a0162120911000000000000f03f",
        ),
        ("google.protobuf.FieldMask a = 1;", "string", '"aB"', "0a050a03615f62"),
    ],
)
def test_a_value(field: str, column: str, value: object, expected: str) -> None:
    assert written(field, column, value) == expected


@pytest.mark.parametrize(
    ("field", "column", "value", "message"),
    [
        ("int32 a = 1;", "int32", None, "column a: NULL, for a field that cannot be absent"),
        ("repeated int32 a = 1;", "[int32]", None, "column a: NULL, for a repeated field"),
        ("repeated int32 a = 1;", "[int32]", [1, None], "column a[]: NULL, for an item"),
        ("Line a = 1;", "{x: int32}", {"x": None}, "column a.x: NULL"),
        ("uint32 a = 1;", "int32", -1, "column a: -1 is not between 0 and 4294967295"),
        ("uint32 a = 1;", "int64", 1 << 32, "column a: 4294967296 is not between"),
        ("uint64 a = 1;", "int64", -1, "column a: -1 is not between"),
        ("uint64 a = 1;", "decimal(20,0)", D(1 << 64), "column a: 18446744073709551616 is not between"),
        ("google.protobuf.UInt32Value a = 1;", "int64", -1, "column a: -1 is not between"),
        ("repeated E a = 1;", "[string]", ["TWO"], "column a[]: 'TWO' is no name of the enum"),
        ("E a = 1;", "string", "01", "'01' is no name of the enum"),
        ("E a = 1;", "string", "2147483648", "'2147483648' is no name"),
        ("E a = 1;", "string", "", "'' is no name"),
        ("google.protobuf.Timestamp a = 1;", "timestamp", 253_402_300_800_000_000, "column a: a time outside of"),
        ("google.protobuf.Timestamp a = 1;", "timestamp", -62_135_596_800_000_001, "column a: a time outside of"),
        ("google.protobuf.Duration a = 1;", "int64", 315_576_000_000_000_001, "column a: a duration of more than"),
        ("google.protobuf.Struct a = 1;", "string", "[1]", "column a: a text that is no JSON of Struct"),
        ("google.protobuf.Value a = 1;", "string", "{", "column a: a text that is no JSON of Value"),
        ("google.protobuf.Any a = 1;", "string", '{"@type": "x/y"}', "column a: a text that is no JSON of Any"),
        ("repeated None a = 1;", "[bool]", [False], "column a[]: false"),
        ("map<int32, None> a = 1;", "[{key: int32, value: bool}]", [{"key": 0, "value": False}], "value: false"),
        ("map<int32, int32> a = 1;", "[{key: int32, value: int32}]", [{"key": 1, "value": None}], "column a: NULL as"),
        ("map<int32, int32> a = 1;", "[{key: int32, value: int32}]", [None], "column a: NULL as"),
        (
            "map<int32, int32> a = 1;",
            "[{key: int32, value: int32}]",
            [{"key": 1, "value": 1}, {"key": 1, "value": 1}],
            "column a: the key 1 twice",
        ),
    ],
)
def test_a_row_that_does_not_fit_fails_with_its_column(field: str, column: str, value: object, message: str) -> None:
    with pytest.raises(DataError) as refused:
        written(field, column, value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("field", "column", "message"),
    [
        ("int32 a = 1;", "int64", "column a: int32 cannot be written from int64\n  declare int32 not null"),
        ("float a = 1;", "float64", "float cannot be written from float64"),
        ("int32 a = 1;", "date", "int32 cannot be written from date"),
        ("int64 a = 1;", "timestamp", "int64 cannot be written from timestamp"),
        ("uint64 a = 1;", "decimal(20,1)", "uint64 cannot be written from decimal(20,1)"),
        ("double a = 1;", "decimal(6,2)", "double cannot be written from decimal(6,2)"),
        ("repeated int32 a = 1;", "int32", "repeated int32 cannot be written from int32"),
        ("int32 a = 1;", "[int32]", "int32 cannot be written from [int32]"),
        ("map<int32, int32> a = 1;", "[int32]", "a map cannot be written from [int32]"),
        ("Line a = 1;", "{y: int32}", "column a.y: the Protobuf message t.Line has no such field"),
        ("None a = 1;", "int32", "message without fields cannot be written from int32"),
        ("M a = 1;", "{a: int32}", "column a: the Protobuf message t.M contains itself"),
        ("int32 b = 1;", "int32", "column a: the Protobuf message t.M has no such field"),
    ],
)
def test_columns_that_do_not_fit_are_refused(field: str, column: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        ProtobufEncoder(schema_of({"a": column}), message_type(field))
    assert message in str(refused.value)


def test_two_members_of_a_oneof_are_refused() -> None:
    message = message_type("oneof o { int32 a = 1; string b = 2; None c = 3; }")
    columns = schema_of({"a": "int32", "b": "string", "c": "bool"})
    rows: list[list[object]] = [[1, None, False], [None, "", None], [None, None, True], [None, None, None]]
    messages = ProtobufEncoder(columns, message).encode(staged_frame(columns, rows)).to_pylist()
    assert [each.hex() for each in messages] == ["0801", "1200", "1a00", ""]
    both: list[list[object]] = [[1, "", None], [1, None, True]]
    for row in both:
        with pytest.raises(DataError, match="are set, of the oneof o"):
            ProtobufEncoder(columns, message).encode(staged_frame(columns, [row]))


PROTO2 = """syntax = "proto2"; enum E { ONE = 1; UNO = 1; option allow_alias = true; }
message M { required int32 r = 1; optional E e = 2; optional group G = 3 { required int32 x = 1; } }"""


def test_required_fields_and_closed_enums() -> None:
    message = schema(PROTO2).message("M")
    columns = schema_of({"r": "int32", "e": "string", "g": "{x: int32}"})
    encoder = ProtobufEncoder(columns, message)
    messages = encoder.encode(staged_frame(columns, [[0, "UNO", {"x": 5}], [1, None, None]])).to_pylist()
    assert [each.hex() for each in messages] == ["080010011b08051c", "0801"]
    misfits: list[tuple[list[object], str]] = [
        ([None, None, None], "column r: NULL"),
        ([1, "2", None], "column e: 2 is no number"),
        ([1, None, {"x": None}], "column g.x: NULL"),
    ]
    for row, reason in misfits:
        with pytest.raises(DataError, match=reason):
            encoder.encode(staged_frame(columns, [row]))
    with pytest.raises(UserError, match=r"column r: a required field of M that no column has"):
        ProtobufEncoder(schema_of({"e": "string"}), message)


def test_equal_rows_have_equal_bytes() -> None:
    """Maps, also those within an Any, are written in one order."""
    message = message_type("map<string, string> m = 1; google.protobuf.Any any = 2; google.protobuf.Struct st = 3;")
    columns = columns_of(message)
    names = [f"key {number}" for number in range(40)]
    entries = [{"key": name, "value": name} for name in names]
    members = ",".join(f'"{name}": 1' for name in names)
    back = ",".join(f'"{name}": 1' for name in reversed(names))
    kind = '"@type": "type.googleapis.com/google.protobuf.Struct"'
    rows: list[list[object]] = [
        [entries, f'{{{kind}, "value": {{{members}}}}}', f"{{{members}}}"],
        [entries[::-1], f'{{{kind}, "value": {{{back}}}}}', f"{{{back}}}"],
    ]
    first, second = ProtobufEncoder(columns, message).encode(staged_frame(columns, rows)).to_pylist()
    assert first == second


KINDS = ["double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32"]
KINDS += ["sfixed64", "bool", "string", "bytes", "E", "Line", "None"]
KINDS += [f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "Int32Value", "UInt64Value", "BoolValue")]
KEYS = ["int32", "uint64", "bool", "string", "sfixed64"]


VALUES: dict[Primitive, list[Any]] = {
    # false is not for items without fields
    Primitive.BOOL: [True],
    Primitive.INT32: [0, 1, -1, 2**31 - 1, -(2**31)],
    # also a duration or an unsigned number of 32 bits
    Primitive.INT64: [0, 1, 2**31, 2**32 - 1],
    Primitive.FLOAT32: [0.0, 0.5, -1.5, float("inf")],
    Primitive.FLOAT64: [0.0, 0.1, -1.5, float("inf")],
    # also names of the enum
    Primitive.STRING: ["ONE", "Z"],
}


def random_source(chance: Random) -> str:
    """A message of some fields, most kinds among them."""
    fields = []
    for number in range(1, chance.randrange(2, 12)):
        kind = chance.choice(KINDS)
        before = chance.choice(["", "optional ", "repeated "])
        if chance.random() < 0.2:
            before, kind = "", f"map<{chance.choice(KEYS)}, {kind}>"
        fields.append(f"{before}{kind} f{number} = {number * chance.choice([1, 20, 3_000])};")
    numbers = [each.rsplit(" ", 1)[1] for each in fields]
    if len(set(numbers)) < len(numbers):
        return random_source(chance)
    return f"{TYPES} message M {{ {' '.join(fields)} }}"


def random_value(chance: Random, dtype: DataType, *, nullable: bool) -> Any:
    """A staging value of a column, which fits the field that the column was made of."""
    if nullable and chance.random() < 0.3:
        return None
    match dtype:
        case ListOf(Struct(fields)) if {each.name for each in fields} == {"key", "value"}:
            made = [random_value(chance, dtype.inner, nullable=False) for _ in range(chance.randrange(4))]
            return sorted({each["key"]: each for each in made}.values(), key=lambda each: each["key"])
        case ListOf(inner):
            return [random_value(chance, inner, nullable=False) for _ in range(chance.randrange(4))]
        case Struct(fields):
            return {each.name: random_value(chance, each.type, nullable=each.nullable) for each in fields}
        case Decimal():
            return D(chance.choice([0, 1, (1 << 64) - 1, chance.getrandbits(64)]))
        case Timestamp():
            return chance.choice([-1, 0, 1_700_000_000_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999])
        case Primitive.BINARY:
            return chance.randbytes(chance.randrange(5))
        case Primitive():
            return chance.choice(VALUES[dtype])


def test_rows_come_back() -> None:
    """Random messages and rows: written, read again, and equal."""
    chance, columns_seen = Random(11), 0
    for _ in range(60):
        message = proto3(random_source(chance)).message("t.M")
        columns = columns_of(message)
        rows = [[random_value(chance, each.type, nullable=each.nullable) for each in columns] for _ in range(20)]
        frame = staged_frame(columns, rows)
        messages: pa.Array = ProtobufEncoder(columns, message).encode(frame)
        decoded = protobuf_decoder(columns, message).decode(Messages(messages))
        assert isinstance(decoded, Decoded)
        assert decoded.reasons == ()
        assert decoded.rows.equals(frame), columns
        again = [message.made.FromString(each).SerializeToString(deterministic=True) for each in messages.to_pylist()]
        assert again == messages.to_pylist()
        columns_seen += len(columns)
    assert columns_seen > 200
