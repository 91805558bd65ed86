"""Columns written as messages of an Avro schema: by kernel and row writer the same bytes, which fastavro reads."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import fastavro
import polars as pl
import pytest

from headrace.connect.format import Messages
from headrace.core.errors import DataError, UserError
from headrace.core.types import Schema, schema_of
from headrace.formats.avro.columns import schema_text
from headrace.formats.avro.decode import avro_decoder
from headrace.formats.avro.encode import AvroEncoder
from headrace.formats.avro.resolve import resolve
from headrace.formats.avro.schema import parse_schema
from headrace.formats.doubtful_rows import staged_frame

D = decimal.Decimal
_MEANING = ("logicalType", "precision", "scale")


def record(*fields: object, name: str = "R") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, avro: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": avro, **more}


def decimals(precision: int, scale: int) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def fixed_decimals(size: int, precision: int, scale: int) -> dict[str, object]:
    return {**decimals(precision, scale), "type": "fixed", "name": "D", "size": size}


def time(name: str) -> dict[str, object]:
    return {"type": "long", "logicalType": name}


def messages(columns: Schema, avro: object, rows: list[list[object]]) -> list[bytes]:
    """By kernel and row writer."""
    schema = parse_schema(json.dumps(avro))
    frame = staged_frame(columns, rows)
    written: list[bytes] = AvroEncoder(columns, schema).encode(frame).to_pylist()
    assert AvroEncoder(columns, schema, kernels=False).encode(frame).to_pylist() == written
    return written


def read(avro: Any, message: bytes) -> Any:
    source = io.BytesIO(message)
    value = fastavro.schemaless_reader(source, fastavro.parse_schema(_plain(avro)), None)
    assert not source.read()
    return value


def _plain(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_plain(one) for one in avro]
    if isinstance(avro, dict):
        return {
            name: _plain(inner) for name, inner in avro.items() if name not in ("logicalType", "precision", "scale")
        }
    return avro


@pytest.mark.parametrize(
    ("column", "avro", "value", "expected"),
    [
        ("bool", "boolean", True, True),
        ("int32", "int", -5, -5),
        ("int32", "long", 5, 5),
        ("int64", "long", -(1 << 63), -(1 << 63)),
        ("float32", "float", 0.5, 0.5),
        ("float32", "double", 0.5, 0.5),
        ("float64", "double", 0.1, 0.1),
        ("string", "string", "é and a text of some length", "é and a text of some length"),
        ("binary", "bytes", b"\xff", b"\xff"),
        ("binary", {"type": "fixed", "name": "F", "size": 2}, b"ab", b"ab"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A", "BB"]}, "BB", "BB"),
        ("int32", ["null", "int"], None, None),
        ("int32", ["null", "int"], 5, 5),
        ("int32", ["int", "null"], None, None),
        ("int32", ["string", "null", "long"], 5, 5),
        ("int32 not null", ["null", "int"], 5, 5),
        ("int32", ["string", "int"], 5, 5),
        ("date", {"type": "int", "logicalType": "date"}, 3, 3),
        ("timestamp", time("timestamp-micros"), -1, -1),
        ("timestamp", time("timestamp-millis"), -1, -1),
        ("timestamp", time("timestamp-millis"), 1_999, 1),
        ("timestamp", time("timestamp-nanos"), 5, 5_000),
        ("timestamp", time("local-timestamp-millis"), 5_000, 5),
        ("int64", time("timestamp-nanos"), 5, 5),
        ("decimal(6,2)", decimals(6, 2), D("1.28"), b"\x00\x80"),
        ("decimal(6,2)", decimals(6, 2), D("-1.28"), b"\x80"),
        ("decimal(6,2)", decimals(6, 2), D("-1.29"), b"\xff\x7f"),
        ("decimal(6,2)", decimals(6, 2), D("0.00"), b"\x00"),
        ("decimal(6,2)", decimals(4, 2), D("99.99"), b"\x27\x0f"),
        ("decimal(38,0)", decimals(38, 0), D(10**38 - 1), (10**38 - 1).to_bytes(16, "big")),
        ("decimal(6,2)", fixed_decimals(3, 6, 2), D("-0.01"), b"\xff\xff\xff"),
        ("decimal(6,2)", fixed_decimals(20, 6, 2), D("0.01"), b"\x00" * 19 + b"\x01"),
        ("[int32]", {"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
        ("[int32]", {"type": "array", "items": "int"}, [], []),
        ("[{key: string, value: int32}]", {"type": "map", "values": "int"}, [{"key": "k", "value": 1}], {"k": 1}),
        (
            "{x: int32, y: int32}",
            record(field("y", "int"), field("x", "long"), name="In"),
            {"x": 1, "y": 2},
            {"y": 2, "x": 1},
        ),
        ("{x: int32}", ["null", record(field("x", "int"), name="In")], None, None),
        ("{int: int32, string: string}", ["null", "string", "int"], {"int": 5, "string": None}, 5),
        ("{int: int32, string: string}", ["null", "string", "int"], {"int": None, "string": "x"}, "x"),
        ("{int: int32, string: string}", ["null", "string", "int"], None, None),
        (
            "{P: {x: int32}, int: int32}",
            [record(field("x", "int"), name="P"), "int"],
            {"P": {"x": 1}, "int": None},
            {"x": 1},
        ),
    ],
)
def test_a_value_by_the_type_of_its_field(column: str, avro: object, value: object, expected: object) -> None:
    schema = record(field("a", avro), field("z", "int", default=7))
    (message,) = messages(schema_of({"a": column}), schema, [[value]])
    assert read(schema, message) == {"a": expected, "z": 7}


@pytest.mark.parametrize(
    ("column", "avro", "value", "message"),
    [
        ("int32", "int", None, "column a: NULL, where the Avro schema has no null"),
        ("int32", ["int", "string"], None, "column a: NULL, where the Avro schema has no null"),
        ("[int32]", {"type": "array", "items": "int"}, [None], "column a[]: NULL, where"),
        ("{x: int32}", record(field("x", "int"), name="In"), {"x": None}, "column a.x: NULL, where"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}, "B", "column a: 'B' is no symbol of the enum"),
        (
            "binary",
            {"type": "fixed", "name": "F", "size": 2},
            b"abc",
            "3 bytes, where the Avro schema has a fixed of 2",
        ),
        ("decimal(6,2)", decimals(3, 2), D("10.00"), "column a: a decimal of more than 3 digits"),
        ("decimal(6,2)", fixed_decimals(1, 6, 2), D("1.28"), "a decimal that a fixed of 1 bytes does not hold"),
        ("timestamp", time("timestamp-nanos"), 1 << 60, "a time beyond nanoseconds of 64 bits"),
        (
            "{int: int32, string: string}",
            ["string", "int"],
            {"int": 5, "string": "x"},
            "2 branches of the union are set",
        ),
        (
            "{int: int32, string: string}",
            ["null", "string", "int"],
            {"int": None, "string": None},
            "0 branches of the union",
        ),
        ("{int: int32, string: string}", ["string", "int"], None, "0 branches of the union"),
    ],
)
def test_a_row_that_does_not_fit_fails_with_its_column(column: str, avro: object, value: object, message: str) -> None:
    columns, schema = schema_of({"a": column}), parse_schema(json.dumps(record(field("a", avro))))
    for kernels in (True, False):
        with pytest.raises(DataError) as refused:
            AvroEncoder(columns, schema, kernels=kernels).encode(staged_frame(columns, [[value]]))
        assert message in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "fields", "message"),
    [
        ({"a": "int64"}, [field("a", "int")], "column a: int64 cannot be written as int"),
        ({"a": "float64"}, [field("a", "float")], "float64 cannot be written as float"),
        ({"a": "string"}, [field("a", ["null", "int"])], "string cannot be written as int"),
        ({"a": "timestamp"}, [field("a", "long")], "timestamp cannot be written as long"),
        ({"a": "int64"}, [field("a", time("timestamp-millis"))], "cannot be written as long (timestamp-millis)"),
        ({"a": "decimal(6,2)"}, [field("a", decimals(6, 3))], "cannot be written as bytes (decimal(6,3))"),
        ({"a": "int32"}, [field("a", "null")], "int32 cannot be written as null"),
        ({"a": "int32"}, [field("a", ["null"])], "the Avro schema has null only"),
        ({"a": "[int32]"}, [field("a", {"type": "map", "values": "int"})], "[int32] cannot be written as map"),
        ({"a": "int32", "b": "int32"}, [field("a", "int")], "column b: the Avro schema has no such field"),
        (
            {"a": "int32"},
            [field("a", "int"), field("b", "int")],
            "column b: a field of the Avro schema without default",
        ),
        ({"a": "int32"}, [field("a", "int"), field("b", "int", default="x")], "column b: the default 'x' is no int"),
        ({"a": "{x: int32, y: int32}"}, [field("a", ["string", "int"])], "column a.x: the union has no such branch"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, str], fields: list[object], message: str) -> None:
    with pytest.raises(UserError) as refused:
        AvroEncoder(schema_of(columns), parse_schema(json.dumps(record(*fields))))
    assert message in str(refused.value)


def test_a_default_inside_of_a_struct() -> None:
    inner = record(field("x", "int"), field("y", ["null", "string"], default=None), name="In")
    schema = record(field("k", "int"), field("a", inner))
    columns = schema_of({"k": "int32", "a": "{x: int32}"})
    (message,) = messages(columns, schema, [[1, {"x": 2}]])
    assert read(schema, message) == {"k": 1, "a": {"x": 2, "y": None}}


def test_only_a_record_has_columns() -> None:
    with pytest.raises(UserError, match="the Avro schema is int"):
        AvroEncoder(schema_of({"a": "int32"}), parse_schema("int"))


def test_rows_come_back() -> None:
    """Over many rows, chunks and slices; `fuzz.avro_encode` has every type."""
    columns = schema_of({"k": "int64 not null", "t": "timestamp", "s": "string", "tags": "[string]"})
    schema = parse_schema(schema_text(columns))
    rows: list[list[object]] = [
        [i, i * 1_000, None if i % 3 else "x" * (i % 40), ["y"] * (i % 4)] for i in range(3_000)
    ]
    frame = staged_frame(columns, rows)
    chunked = pl.concat([frame[:7], frame[7:2_000], frame[2_000:]], rechunk=False)
    encoded = AvroEncoder(columns, schema).encode(chunked[5:])
    assert avro_decoder(columns, resolve(schema, columns)).decode(Messages(encoded)).rows.equals(frame[5:])
