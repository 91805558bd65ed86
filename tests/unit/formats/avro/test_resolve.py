"""Resolution, rule by rule: a writer's field read to a column, with and without a reader's schema."""

from __future__ import annotations

import decimal
import json
import struct
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from headrace.connect.format import Messages
from headrace.core.errors import UserError
from headrace.core.types import Schema, schema_of
from headrace.formats.avro.decode import avro_decoder
from headrace.formats.avro.resolve import Program, resolve
from headrace.formats.avro.schema import AvroType, parse_schema
from support.avro.binary import encoded

D = decimal.Decimal


def record(*fields: object, name: str = "R", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, avro: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": avro, **more}


def enum(*symbols: str, name: str = "E", **more: object) -> dict[str, object]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: object) -> dict[str, object]:
    return {"type": "fixed", "name": name, "size": size, **more}


def logical(plain: str, name: str, **more: object) -> dict[str, object]:
    return {"type": plain, "logicalType": name, **more}


def decimals(precision: int, scale: int, plain: str = "bytes") -> dict[str, object]:
    return logical(plain, "decimal", precision=precision, scale=scale)


def schema(text: object) -> AvroType:
    return parse_schema(json.dumps(text))


@dataclass(frozen=True, slots=True)
class Bad:
    """The row is bad, for a reason with this text."""

    reason: str


def outcome(program: Program, columns: dict[str, str], message: bytes) -> Any:
    """The values of the one row, or `Bad`: the same by kernel and by the row reader alone."""
    expected = schema_of(columns)
    by_kernel, by_rows = (_outcome(program, expected, message, kernels=kernels) for kernels in (True, False))
    assert by_kernel == by_rows
    return by_rows


def _outcome(program: Program, columns: Schema, message: bytes, *, kernels: bool) -> Any:
    decoded = avro_decoder(columns, program, kernels=kernels).decode(Messages(pa.array([message], pa.binary())))
    assert dict(decoded.rows.schema) == columns.polars()
    return Bad(decoded.reasons[0]) if decoded.reasons else list(decoded.rows.to_dicts()[0].values())


def read(writer: object, column: str, value: Any, reader: object = None) -> Any:
    """Field `a` of one type, read to a column of another."""
    written = schema(record(field("a", writer)))
    read_as = None if reader is None else schema(record(field("a", reader)))
    program = resolve(written, schema_of({"a": column}), reader=read_as)
    found = outcome(program, {"a": column}, encoded(written, [value]))
    return found if isinstance(found, Bad) else found[0]


US = 1_577_836_800_000_000
FLOAT32 = struct.unpack("<f", struct.pack("<f", 0.1))[0]
UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"


@pytest.mark.parametrize(
    ("writer", "column", "value", "expected"),
    [
        ("int", "int32", 5, 5),
        ("int", "int64", -5, -5),
        ("int", "float32", 16_777_217, 16_777_216.0),
        ("int", "float64", 16_777_217, 16_777_217.0),
        ("long", "float32", (1 << 53) + (1 << 29) + 1, float((1 << 53) + (1 << 30))),
        ("long", "float64", (1 << 53) + 1, float(1 << 53)),
        ("long", "timestamp", 5, 5_000),
        ("long", "timestamp(s)", 5, 5_000_000),
        ("long", "timestamp(us)", 5, 5),
        ("long", "timestamp", 1 << 62, Bad('field "a": 4611686018427387904 is a time beyond microseconds')),
        ("int", "int32", 1 << 31, Bad('field "a": 2147483648 is no int')),
        ("int", "date", 3, 3),
        ("float", "float32", 0.1, FLOAT32),
        ("float", "float64", 0.1, FLOAT32),
        ("double", "float64", 0.1, 0.1),
        ("boolean", "bool", True, True),
        ("string", "string", "é", "é"),
        ("string", "binary", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("bytes", "string", b"ab\xc0\xaf", Bad('field "a": not UTF-8: byte 0xc0 at 2')),
        ("string", "string", b"\xff", Bad('field "a": not UTF-8: byte 0xff at 0')),
        ("bytes", "binary", b"\xff", b"\xff"),
        (fixed(2), "binary", b"\xff\x00", b"\xff\x00"),
        (enum("A", "BB"), "string", 1, "BB"),
        (enum("A", "BB"), "string", 2, Bad('field "a": an enum has no symbol 2')),
        (enum("A", "BB"), "string", -1, Bad('field "a": an enum has no symbol -1')),
        ("null", "int64", None, None),
        ("null", "int64 not null", None, Bad('field "a" is not null but null')),
        (["null", "int"], "int64", (1, 5), 5),
        (["null", "int"], "int64", (0, None), None),
        (["int", "null"], "int64", (1, None), None),
        (["null", "int"], "int64 not null", (0, None), Bad('field "a" is not null but null')),
        (["null", "int"], "int64 not null", (1, 5), 5),
        (["null", "int", "long"], "int64", (2, 7), 7),
        (["int", "string"], "string", (1, "x"), "x"),
        (["int", "string"], "string", (0, 5), Bad('field "a": int cannot be read as string')),
        (["int", "string"], "{int: int32, string: string}", (0, 5), {"int": 5, "string": None}),
        (["null", "int", "string"], "{int: int32, string: string}", (2, "x"), {"int": None, "string": "x"}),
        (["null", "int", "string"], "{int: int32, string: string}", (0, None), None),
        (["int", "string"], "{long: int64, string: string}", (0, 5), {"long": 5, "string": None}),
        (["int", "string"], "{int: int32}", (1, "x"), Bad('field "a.int": string cannot be read as int32')),
        ("int", "{int: int32, string: string}", 5, {"int": 5, "string": None}),
        ([record(field("x", "int"), name="P"), "int"], "{x: int64}", (0, [5]), {"x": 5}),
        ([record(field("x", "int"), name="P"), "int"], "{P: {x: int64}}", (0, [5]), {"P": {"x": 5}}),
        (record(field("x", "int"), name="P"), "{P: {x: int64}, int: int32}", [5], {"P": {"x": 5}, "int": None}),
        ({"type": "array", "items": "int"}, "[float64]", [1, 2], [1.0, 2.0]),
        ({"type": "array", "items": ["null", "int"]}, "[int32]", [(0, None), (1, 2)], [None, 2]),
        ({"type": "array", "items": ["null", "int"]}, "[int32 not null]", [(0, None)], Bad('field "a[]" is not null')),
        (
            {"type": "map", "values": "int"},
            "[{key: string not null, value: int64}]",
            [("k", 1), ("k", 2)],
            [{"key": "k", "value": 1}, {"key": "k", "value": 2}],
        ),
        (record(field("x", "int"), field("y", "int"), name="In"), "{y: int32, z: int32}", [1, 2], {"y": 2, "z": None}),
        (record(name="In"), "{z: int32 not null}", [], Bad('field "a.z" is not null but missing')),
        (decimals(6, 2), "decimal(6,2)", b"\x04\xd2", D("12.34")),
        (decimals(6, 2), "decimal(6,2)", b"\xff", D("-0.01")),
        (decimals(6, 2), "decimal(6,2)", b"\x00" * 40 + b"\x01", D("0.01")),
        (decimals(6, 2), "decimal(6,2)", b"", Bad('field "a": a decimal without digits')),
        (decimals(3, 2), "decimal(6,2)", b"\x04\xd2", Bad('field "a": a decimal of more than 3 digits')),
        (decimals(6, 2), "decimal(6,3)", b"\x04\xd2", D("12.340")),
        (decimals(6, 2), "decimal(6,1)", b"\x04\xce", D("12.3")),
        (decimals(6, 2), "decimal(6,1)", b"\x04\xd2", Bad('field "a": a decimal that decimal(6,1) does not hold')),
        (decimals(6, 2), "decimal(4,3)", b"\x04\xd2", Bad('field "a": a decimal that decimal(4,3) does not hold')),
        (decimals(50, 2), "string", b"\x04\xd2", "12.34"),
        (
            {**fixed(3), "logicalType": "decimal", "precision": 6, "scale": 2},
            "decimal(6,2)",
            b"\xff\xff\xfe",
            D("-0.02"),
        ),
        (logical("bytes", "big-decimal"), "string", b"\x04\x04\xd2\x04", "12.34"),
        (logical("bytes", "big-decimal"), "decimal(6,3)", b"\x04\x04\xd2\x04", D("12.340")),
        (logical("bytes", "big-decimal"), "string", b"\x04\x04\xd2\xfe\xff\xff\xff\x0f", Bad("a decimal with a scale")),
        (logical("bytes", "big-decimal"), "string", b"\x04\x04", Bad('field "a": no big-decimal')),
        (logical("int", "date"), "date", 3, 3),
        (logical("int", "date"), "int64", 3, 3),
        (logical("int", "time-millis"), "int32", 3, 3),
        (logical("long", "timestamp-millis"), "timestamp", US // 1000, US),
        (logical("long", "timestamp-millis"), "timestamp(s)", US // 1000, US),
        (logical("long", "timestamp-micros"), "timestamp", US, US),
        (logical("long", "timestamp-nanos"), "int64", 7, 7),
        (logical("long", "local-timestamp-millis"), "timestamp", US // 1000, US),
        (logical("long", "timestamp-millis"), "timestamp", 1 << 60, Bad("is a time beyond microseconds of 64 bits")),
        (logical("string", "uuid"), "string", UUID, UUID),
        ({**fixed(16), "logicalType": "uuid"}, "string", bytes.fromhex(UUID.replace("-", "")), UUID),
        (
            {**fixed(12), "logicalType": "duration"},
            "{months: int64, days: int64, millis: int64}",
            struct.pack("<III", 1, 2, 0xFFFFFFFF),
            {"months": 1, "days": 2, "millis": 0xFFFFFFFF},
        ),
        (
            {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
            "timestamp",
            "2020-01-01T00:00:00Z",
            US,
        ),
        (
            record(
                field("scale", "int"),
                field("value", "bytes"),
                name="V",
                **{"connect.name": "io.debezium.data.VariableScaleDecimal"},
            ),
            "decimal(6,3)",
            [2, b"\x04\xd2"],
            D("12.340"),
        ),
    ],
)
def test_a_field_by_its_column(writer: object, column: str, value: Any, expected: Any) -> None:
    _check(read(writer, column, value), expected)


@pytest.mark.parametrize(
    ("writer", "reader", "column", "value", "expected"),
    [
        ("int", "float", "float64", 16_777_217, 16_777_216.0),
        ("long", "double", "float64", (1 << 53) + 1, float(1 << 53)),
        ("int", ["null", "long"], "int64", 5, 5),
        ("int", ["string", "double", "long"], "{double: float64, long: int64}", 5, {"double": 5.0, "long": None}),
        ("int", ["float", "long"], "{float: float32, long: int64}", 16_777_217, {"float": 16_777_216.0, "long": None}),
        ("float", ["double", "float"], "{double: float64, float: float32}", 0.5, {"double": None, "float": 0.5}),
        (
            ["string", "bytes"],
            ["string", "bytes"],
            "{string: string, bytes: binary}",
            (1, b"x"),
            {"string": None, "bytes": b"x"},
        ),
        (["null", "int"], "long", "int64", (1, 5), 5),
        (["null", "int"], "long", "int64", (0, None), Bad('field "a" is not null but null')),
        (["null", "int"], ["string", "null", "long"], "int64", (0, None), None),
        (["int", "string"], "string", "string", (0, 5), Bad('field "a": int cannot be read as string')),
        (enum("A", "B"), enum("B", "A"), "string", 1, "B"),
        (enum("A", "B"), enum("A"), "string", 0, "A"),
        (enum("A", "B"), enum("A"), "string", 1, Bad('field "a": a symbol that the reader\'s schema lacks')),
        (enum("A", "B"), enum("A", "U", default="U"), "string", 1, "U"),
        (["null", enum("A", "B")], ["null", enum("A", "U", default="U")], "string", (1, 1), "U"),
        (enum("A"), enum("A", name="E2", aliases=["E"]), "string", 0, "A"),
        (enum("A", name="x.E"), enum("A", name="y.E"), "string", 0, "A"),
        (record(field("x", "int"), name="P"), record(field("x", "long"), name="Q"), "{x: int64}", [5], {"x": 5}),
        (
            [record(field("x", "int"), name="P"), record(field("x", "int"), name="Q")],
            [record(field("x", "long"), name="Q"), record(field("x", "long"), name="P")],
            "{Q: {x: int64}, P: {x: int64}}",
            (0, [1]),
            {"Q": None, "P": {"x": 1}},
        ),
        (
            record(field("old", "int"), name="P"),
            record(field("x", "int", aliases=["old"]), name="P"),
            "{x: int32}",
            [5],
            {"x": 5},
        ),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros"), "timestamp", US // 1000, US),
        ("long", logical("long", "timestamp-micros"), "timestamp", US, US),
        (decimals(6, 2), decimals(6, 3), "decimal(6,3)", b"\x04\xd2", D("12.340")),
    ],
)
def test_a_field_by_the_reader_s_schema(writer: object, reader: object, column: str, value: Any, expected: Any) -> None:
    _check(read(writer, column, value, reader), expected)


def _check(found: Any, expected: Any) -> None:
    if isinstance(expected, Bad):
        assert isinstance(found, Bad)
        assert expected.reason in found.reason
        return
    if hasattr(found, "year"):
        found = pl.Series([found]).to_physical()[0]
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(expected, D):
        assert found.as_tuple() == expected.as_tuple()


@pytest.mark.parametrize(
    ("writer", "reader", "column", "message"),
    [
        ("long", None, "int32", 'field "a": long cannot be read as int32'),
        ("double", None, "float32", "double cannot be read as float32"),
        ("int", None, "string", "int cannot be read as string"),
        ("boolean", None, "int32", "boolean cannot be read as int32"),
        ("string", None, "date", "string cannot be read as date"),
        ("bytes", None, "decimal(6,2)", "bytes cannot be read as decimal(6,2)"),
        (fixed(2), None, "string", "F cannot be read as string"),
        (["null", "int"], None, "string", "int cannot be read as string"),
        (["int", "long"], None, "string", "int cannot be read as string"),
        ({"type": "array", "items": "int"}, None, "[string]", 'field "a[]": int cannot be read as string'),
        ({"type": "map", "values": "int"}, None, "[int32]", "map cannot be read as [int32]"),
        ({"type": "array", "items": "int"}, None, "int32", "array cannot be read as int32"),
        (logical("long", "timestamp-nanos"), None, "timestamp", "declare int64, or lossy: true"),
        (logical("long", "time-micros"), None, "timestamp", "long (time-micros) cannot be read as timestamp"),
        (enum("A"), enum("A", name="Other"), "string", "E cannot be read as Other"),
        (fixed(2), fixed(3), "binary", "F cannot be read as F"),
        (fixed(2), fixed(2, "G"), "binary", "F cannot be read as G"),
        (fixed(2), "bytes", "binary", "F cannot be read as bytes"),
        ("long", "int", "int64", "long cannot be read as int"),
        ("int", ["null", "string"], "string", "no branch of the reader takes int"),
        (enum("A"), "string", "string", "E cannot be read as string"),
    ],
)
def test_what_cannot_be_read_is_refused(writer: object, reader: object, column: str, message: str) -> None:
    written = schema(record(field("a", writer)))
    with pytest.raises(UserError) as refused:
        resolve(
            written,
            schema_of({"a": column}),
            reader=None if reader is None else schema(record(field("a", reader))),
        )
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("avro", "default", "column", "expected"),
    [
        ("string", "a default longer than a message", "string", "a default longer than a message"),
        (["null", "string"], None, "string", None),
        (["null", "string"], "x", "string", "x"),
        ("bytes", "\u00ff\u0001", "binary", b"\xff\x01"),
        (fixed(2), "\u00ff\u0001", "binary", b"\xff\x01"),
        ("double", 1, "float64", 1.0),
        ("float", 0.1, "float32", FLOAT32),
        (enum("A", "B"), "B", "string", "B"),
        (decimals(4, 2), "\u0001\u0000", "decimal(4,2)", D("2.56")),
        (logical("long", "timestamp-millis"), US // 1000, "timestamp", US),
        ({"type": "array", "items": "int"}, [1, 2], "[int32]", [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 2}, "[{key: string, value: int32}]", [{"key": "k", "value": 2}]),
        (
            record(field("x", "int"), field("y", ["null", "int"], default=None), name="In"),
            {"x": 1},
            "{x: int32, y: int32}",
            {"x": 1, "y": None},
        ),
    ],
)
def test_defaults(avro: object, default: object, column: str, expected: Any) -> None:
    writer = schema(record(field("z", {"type": "array", "items": "string"}), field("k", "int")))
    reader = schema(record(field("b", avro, default=default), field("k", "int")))
    columns = {"b": column, "k": "int32"}
    program = resolve(writer, schema_of(columns), reader=reader)
    found = outcome(program, columns, encoded(writer, [["q"], 7]))
    _check(found[0], expected)
    assert found[1] == 7


@pytest.mark.parametrize(
    ("avro", "default"),
    [
        ("int", "x"),
        ("int", 1 << 31),
        ("string", None),
        ("bytes", "\u0100"),
        (fixed(2), "a"),
        (enum("A"), "B"),
        ("float", 1e300),
    ],
)
def test_a_default_of_another_type_is_refused_where_it_is_needed(avro: object, default: object) -> None:
    reader = schema(record(field("b", avro, default=default)))
    writer = schema(record(field("k", "int")))
    column = {"int": "int32", "string": "string", "bytes": "binary", "float": "float32"}.get(str(avro), "string")
    column = "binary" if isinstance(avro, dict) and avro["type"] == "fixed" else column
    with pytest.raises(UserError, match='field "b": the default'):
        resolve(writer, schema_of({"b": column}), reader=reader)
    resolve(reader, schema_of({"b": column}), reader=reader)


def test_columns_without_a_field() -> None:
    writer = schema(record(field("a", "int")))
    columns = {"n": "int32", "a": "int32", "b": "int32 not null"}
    program = resolve(writer, schema_of(columns))
    assert outcome(program, columns, encoded(writer, [5])) == Bad('field "b" is not null but missing')
    del columns["b"]
    assert outcome(resolve(writer, schema_of(columns)), columns, encoded(writer, [5])) == [None, 5]
    with pytest.raises(UserError, match="the reader's schema has no such field"):
        resolve(writer, schema_of(columns), reader=writer)


def test_a_name_holds_before_an_alias() -> None:
    writer = schema(record(field("old", "int"), field("a", "int")))
    reader = schema(record(field("a", "int", aliases=["old"])))
    program = resolve(writer, schema_of({"a": "int32"}), reader=reader)
    assert outcome(program, {"a": "int32"}, encoded(writer, [1, 2])) == [2]
    assert program.notes == ("field \"a\": the writer has it and its alias 'old'",)


def test_a_lossy_branch_before_a_lossless_one_is_noted() -> None:
    reader = schema(record(field("a", ["float", "long"])))
    column = schema_of({"a": "{float: float32, long: int64}"})
    program = resolve(schema(record(field("a", "int"))), column, reader=reader)
    assert program.notes == ('field "a": int is rounded to float, the first branch that takes it',)
    assert not resolve(schema(record(field("a", "long"))), column, reader=reader).notes


def test_nanoseconds_are_cut_where_that_is_asked_for() -> None:
    writer = schema(record(field("a", logical("long", "timestamp-nanos"))))
    program = resolve(writer, schema_of({"a": "timestamp"}), lossy=True)
    found = outcome(program, {"a": "timestamp"}, encoded(writer, [-1]))
    assert pl.Series(found).to_physical().to_list() == [-1]


def test_fields_in_another_order_and_fields_that_are_skipped() -> None:
    skipped = (
        field("s1", {"type": "array", "items": ["null", record(field("x", "string"), name="S")]}),
        field("s2", {"type": "map", "values": "double"}),
        field("s3", "null"),
        field("s4", enum("A")),
        field("s5", fixed(3)),
        field("s6", "float"),
        field("s7", "boolean"),
    )
    writer = schema(record(field("b", "string"), *skipped, field("a", "int")))
    values = ["x", [(0, None), (1, ["y"])], [("k", 1.0)], None, 0, b"abc", 1.0, True, 5]
    columns = {"a": "int32", "b": "string"}
    assert outcome(resolve(writer, schema_of(columns)), columns, encoded(writer, values)) == [5, "x"]


@pytest.mark.parametrize("broken", [b"", b"\x02", b"\x02x", b"\x02x\x0a\x00", b"\x01x\x0a", b"\x80"])
def test_broken_messages_are_bad(broken: bytes) -> None:
    writer = schema(record(field("b", "string"), field("a", "int")))
    found = outcome(resolve(writer, schema_of({"a": "int32"})), {"a": "int32"}, broken)
    assert isinstance(found, Bad)
    assert "no message of the writer's schema" in found.reason


def test_only_records_have_columns() -> None:
    with pytest.raises(UserError, match="the writer's Avro schema is int"):
        resolve(schema("int"), schema_of({"a": "int32"}))
