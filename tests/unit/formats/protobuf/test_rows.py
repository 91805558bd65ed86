"""Messages become rows: values by presence, range and kind; bad ones have a reason with its place."""

from __future__ import annotations

import decimal
import struct
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import any_pb2, struct_pb2

from headrace.connect.format import Decoded, Messages
from headrace.core.types import Schema, schema_of
from headrace.formats.doubtful_rows import BadMessageError
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.decode import protobuf_decoder
from headrace.formats.protobuf.descriptors import MessageType
from headrace.formats.protobuf.rows import RowReader
from support.protobuf.sources import proto3, schema

D = decimal.Decimal
TYPES = "enum E { option allow_alias = true; Z = 0; ZERO = 0; ONE = 1; } message Line { int32 x = 1; } "
DECIMAL = """syntax = "proto3"; package confluent.type;
    message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; } message M { Decimal a = 1; }"""


def message_type(field: str) -> MessageType:
    return proto3(f"{TYPES} message M {{ {field} }}").message("t.M")


def value(field: str, column: str, data: bytes) -> object:
    (found,) = RowReader(schema_of({"a": column}), message_type(field)).read(data)
    return found


@pytest.mark.parametrize(
    ("field", "column", "data", "expected"),
    [
        ("int32 a = 1;", "int32", "", 0),
        ("optional int32 a = 1;", "int32", "", None),
        ("optional int32 a = 1;", "int32", "0800", 0),
        ("int32 a = 1;", "int32", "08ffffffffffffffff7f", -1),  # the low 32 bits
        ("int32 a = 1;", "int32", "0d01000000", 0),  # another wire type: an unknown field
        ("int32 a = 1;", "int64", "0807", 7),
        ("uint32 a = 1;", "int64", "08ffffffff0f", (1 << 32) - 1),
        ("uint64 a = 1;", "int64", "08ffffffffffffffff7f", (1 << 63) - 1),
        ("uint64 a = 1;", "decimal(20,0)", "08ffffffffffffffffff01", D((1 << 64) - 1)),
        ("uint64 a = 1;", "decimal(24,4)", "0803", D(3)),
        ("bool a = 1;", "bool", "0802", True),
        ("float a = 1;", "float64", "0d" + struct.pack("<f", 0.5).hex(), 0.5),
        ("string a = 1;", "string", "0a02c3a9", "é"),
        ("string a = 1;", "decimal(6,2)", "0a03312e35", D("1.50")),
        ("bytes a = 1;", "binary", "0a02ff00", b"\xff\x00"),
        ("E a = 1;", "string", "", "Z"),
        ("E a = 1;", "string", "0801", "ONE"),
        ("E a = 1;", "string", "0863", "99"),
        ("E a = 1;", "string", "08ffffffffffffffffff01", "-1"),
        ("E a = 1;", "int32", "0863", 99),
        ("repeated int32 a = 1;", "[int32]", "", []),
        ("repeated int32 a = 1;", "[int32]", "0a0201020803", [1, 2, 3]),  # packed and not
        ("Line a = 1;", "{x: int32}", "", None),
        ("Line a = 1;", "{x: int32}", "0a00", {"x": 0}),
        ("Line a = 1;", "{x: int32, y: string}", "0a020801", {"x": 1, "y": None}),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32", "08011002", None),
        (
            "map<string, int32> a = 1;",
            "[{key: string, value: int32}]",
            "0a050a016210020a050a01611001",
            [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
        ),
        (
            "map<string, int32> a = 1;",
            "[{value: int32, key: string}]",
            "0a050a016110010a050a01611002",
            [{"key": "a", "value": 2}],
        ),
        (
            "map<string, Line> a = 1;",
            "[{key: string, value: {x: int32}}]",
            "0a030a0161",
            [{"key": "a", "value": {"x": 0}}],
        ),
        ("google.protobuf.Empty a = 1;", "bool", "", False),
        ("google.protobuf.Empty a = 1;", "bool", "0a00", True),
        ("repeated google.protobuf.Empty a = 1;", "[bool]", "0a000a00", [True, True]),
        ("google.protobuf.Timestamp a = 1;", "timestamp", "", None),
        ("google.protobuf.Timestamp a = 1;", "timestamp", "0a0608ffffffff0f", 4_294_967_295_000_000),
        (
            "google.protobuf.Timestamp a = 1;",
            "{seconds: int64, nanos: int32}",
            "0a0410ff9f02",
            {"seconds": 0, "nanos": 36_863},
        ),
        ("google.protobuf.Int32Value a = 1;", "int32", "0a00", 0),
        ("google.protobuf.Int32Value a = 1;", "int32", "", None),
        ("google.protobuf.Int32Value a = 1;", "{value: int32}", "0a020805", {"value": 5}),
        ("google.protobuf.FieldMask a = 1;", "string", "0a050a03615f62", '"aB"'),
    ],
)
def test_a_value(field: str, column: str, data: str, expected: object) -> None:
    found = value(field, column, bytes.fromhex(data))
    assert found == expected
    assert type(found) is type(expected)


def times(seconds: int, nanos: int) -> dict[str, int]:
    return {"seconds": seconds, "nanos": nanos}


@pytest.mark.parametrize(
    ("kind", "seconds", "nanos", "expected"),
    [
        ("Timestamp", 1, 1_999, 1_000_001),
        ("Timestamp", -1, 1_999, -999_999),
        ("Timestamp", -62_135_596_800, 0, -62_135_596_800_000_000),
        ("Timestamp", 253_402_300_799, 999_999_999, 253_402_300_799_999_999),
        ("Timestamp", -62_135_596_801, 0, None),
        ("Timestamp", 253_402_300_800, 0, None),
        ("Timestamp", 0, -1, None),
        ("Timestamp", 0, 1_000_000_000, None),
        ("Duration", -1, -1_500, -1_000_002),
        ("Duration", 0, -1, -1),
        ("Duration", 315_576_000_000, 0, 315_576_000_000_000_000),
        ("Duration", 315_576_000_001, 0, None),
        ("Duration", 1, -1, None),
        ("Duration", 0, 1_000_000_000, None),
    ],
)
def test_times_are_floored_and_have_a_range(kind: str, seconds: int, nanos: int, expected: int | None) -> None:
    message = message_type(f"google.protobuf.{kind} a = 1;")
    reader = RowReader(columns_of(message), message)
    data = message.made(a=times(seconds, nanos)).SerializeToString()
    if expected is None:
        with pytest.raises(BadMessageError, match='field "a": a '):
            reader.read(data)
    else:
        assert reader.read(data) == [expected]


@pytest.mark.parametrize(
    ("field", "column", "data", "reason"),
    [
        ("int32 a = 1;", "int32", "08", "no message t.M: "),
        ("int32 a = 1;", "int32", "0001", "no message t.M: "),
        ("int32 a = 1;", "int32", "088080808080808080808001", "no message t.M: "),
        ("string a = 1;", "string", "0a01ff", "no message t.M: "),
        ("optional int32 a = 1;", "int32 not null", "", 'field "a" is not null but absent'),
        ("Line a = 1;", "{x: int32} not null", "", 'field "a" is not null but absent'),
        ("int32 b = 1;", "int32 not null", "", 'field "a" is not null but missing'),
        ("Line a = 1;", "{y: int32 not null}", "0a00", 'field "a.y" is not null but missing'),
        (
            "uint64 a = 1;",
            "int64",
            "0880808080808080808001",
            'field "a": 9223372036854775808 is beyond int64: declare decimal(20,0)',
        ),
        ("repeated uint64 a = 1;", "[int64]", "0a0a80808080808080808001", 'field "a[]": 9223372036854775808 is beyond'),
        ("string a = 1;", "decimal(2,1)", "0a0431302e30", 'field "a": a text that is no decimal(2,1)'),
        ("string a = 1;", "decimal(2,1)", "", 'field "a": a text that is no decimal(2,1)'),
        ("google.protobuf.Any a = 1;", "string", "0a050a03782f79", 'field "a": an Any of a type that the schema lacks'),
        ("google.protobuf.Value a = 1;", "string", "0a0911000000000000f87f", 'field "a": no JSON: '),
    ],
)
def test_a_bad_message_has_its_reason(field: str, column: str, data: str, reason: str) -> None:
    with pytest.raises(BadMessageError) as bad:
        value(field, column, bytes.fromhex(data))
    assert reason in str(bad.value)
    assert "\n" not in str(bad.value)


PROTO2 = """syntax = "proto2";
message M {
  optional string s = 1;
  optional E e = 2;
  map<string, int32> m = 3;
  optional In in = 4;
  repeated E es = 5;
  optional int32 d = 6 [default = 7];
}
enum E { ONE = 1; }
message In { required int32 r = 1; }
"""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0a0261ff", 'field "s": not UTF-8: byte 0xff at 1'),
        ("1a050a01ff1001", 'field "m[].key": not UTF-8: byte 0xff at 0'),
        ("2200", 'field "in.r": required but missing'),
    ],
)
def test_bad_messages_of_proto2(data: str, reason: str) -> None:
    message = schema(PROTO2).message("M")
    for columns in (columns_of(message), *([schema_of({"d": "int32"})] if "required" in reason else [])):
        with pytest.raises(BadMessageError) as bad:
            RowReader(columns, message).read(bytes.fromhex(data))
        assert str(bad.value) == reason


def test_a_closed_enum_leaves_unknown_values_out() -> None:
    message = schema(PROTO2).message("M")
    reader = RowReader(schema_of({"e": "string", "es": "[string]", "d": "int32"}), message)
    assert reader.read(bytes.fromhex("1063286328012863")) == [None, ["ONE"], None]


@pytest.mark.parametrize(
    ("digits", "scale", "column", "expected"),
    [
        (b"\x00\xff", 1, "decimal(6,2)", D("25.50")),
        (b"\xff", 2, "decimal(6,2)", D("-0.01")),
        (b"", 0, "decimal(6,2)", D("0.00")),
        (b"\x01", -2, "decimal(6,2)", D("100.00")),
        (b"\x01", 3, "decimal(6,2)", None),
        (b"\x01", 2_000_000_000, "decimal(6,2)", None),
        (b"\x7f" * 20, 0, "decimal(6,2)", None),
    ],
)
def test_a_decimal_of_confluent(digits: bytes, scale: int, column: str, expected: D | None) -> None:
    message = schema(DECIMAL).message("confluent.type.M")
    reader = RowReader(schema_of({"a": column}), message)
    data = message.made(a={"value": digits, "scale": scale}).SerializeToString()
    if expected is None:
        with pytest.raises(BadMessageError, match='field "a": a decimal'):
            reader.read(data)
    else:
        assert str(reader.read(data)[0]) == str(expected)


def test_json_has_sorted_keys_and_knows_the_types_of_any() -> None:
    message = message_type("google.protobuf.Struct s = 1; google.protobuf.Any any = 2; google.protobuf.Value v = 3;")
    line = message.pool.FindMessageTypeByName("t.Line")
    inner = any_pb2.Any(type_url=f"x/{line.full_name}", value=b"\x08\x05")
    fields = struct_pb2.Struct()
    fields.update({"b": [1, None, "é"], "a": {"z": True, "y": "1"}})
    made: Any = message.made(v={"null_value": 0})
    made.s.MergeFromString(fields.SerializeToString())
    made.any.MergeFromString(inner.SerializeToString())
    row = RowReader(columns_of(message), message).read(made.SerializeToString())
    assert row == ['{"a":{"y":"1","z":true},"b":[1.0,null,"é"]}', '{"@type":"x/t.Line","x":5}', "null"]
    columns = schema_of({"any": "{type_url: string, value: binary}"})
    assert RowReader(columns, message).read(made.SerializeToString()) == [
        {"type_url": "x/t.Line", "value": b"\x08\x05"}
    ]


def test_fields_may_be_called_as_methods_of_messages() -> None:
    message = message_type("optional int32 HasField = 1; int32 FromString = 2; int32 IsInitialized = 3;")
    reader = RowReader(columns_of(message), message)
    assert reader.read(bytes.fromhex("080110021803")) == [1, 2, 3]


def test_a_batch_keeps_its_order() -> None:
    message = message_type("int32 a = 1; repeated string s = 2; google.protobuf.Timestamp at = 3; float f = 4;")
    values = pa.array([b"\x08\x01", None, b"\xff", b"\x08\x02\x12\x01x\x1a\x02\x08\x01"], pa.binary())
    decoded = protobuf_decoder(columns_of(message), message).decode(Messages(values))
    assert isinstance(decoded, Decoded)
    assert decoded.rows.schema == columns_of(message).polars()
    assert decoded.rows["a"].to_list() == [1, 2]
    assert decoded.good is not None
    assert (decoded.good.tolist(), decoded.bad.tolist(), decoded.skipped) == ([0, 3], [2], 1)
    assert decoded.reasons == ("no message t.M: Wire format was corrupt",)


def test_any_bytes_are_a_row_or_bad() -> None:
    """Messages that were cut, flipped and joined; the types must be those of staging columns."""
    message = message_type(
        "int32 a = 1; string s = 2; map<string, Line> m = 3; google.protobuf.Timestamp at = 4; "
        "google.protobuf.Struct st = 5; google.protobuf.Any any = 6; repeated uint64 u = 7; E e = 8;"
    )
    columns: Schema = columns_of(message)
    made: Any = message.made(a=1, s="text", at=times(5, 7), u=[1, 1 << 63], e=5)
    made.m["k"].x = 3
    made.st["k"] = [1, {"x": None}]
    made.any.Pack(made.at)
    whole, chance, messages = made.SerializeToString(), Random(7), []
    for _ in range(400):
        data = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole) + 1)])])
        for _ in range(chance.randrange(3)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        messages.append(bytes(data))
    decoded = protobuf_decoder(columns, message).decode(Messages(pa.array(messages, pa.large_binary())))
    assert isinstance(decoded, Decoded)
    assert decoded.rows.height + len(decoded.bad) == 400
    assert 20 < decoded.rows.height < 380
