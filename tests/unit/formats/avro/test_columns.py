"""Columns for Avro types, and the canonical schema made of columns."""

from __future__ import annotations

import json
from random import Random

import fastavro
import pytest

from fuzz.generators.schemas import random_schema
from headrace.core.errors import UserError
from headrace.core.types import Field, Schema, parse_type, schema_of
from headrace.formats.avro.columns import columns_of, schema_text
from headrace.formats.avro.schema import parse_schema

DECIMAL = {"type": "bytes", "logicalType": "decimal"}


def logical(plain: str, name: str) -> dict[str, str]:
    return {"type": plain, "logicalType": name}


@pytest.mark.parametrize(
    ("avro", "column"),
    [
        ("boolean", "bool not null"),
        ("int", "int32 not null"),
        ("long", "int64 not null"),
        ("float", "float32 not null"),
        ("double", "float64 not null"),
        ("bytes", "binary not null"),
        ("string", "string not null"),
        (["null", "int"], "int32"),
        (["int", "null"], "int32"),
        (["int"], "int32 not null"),
        ({"type": "fixed", "name": "F", "size": 3}, "binary not null"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string not null"),
        ({"type": "array", "items": ["null", "int"]}, "[int32] not null"),
        ({"type": "map", "values": "long"}, "[{key: string not null, value: int64 not null} not null] not null"),
        (["int", "string"], "{int: int32, string: string} not null"),
        (["null", "int", {"type": "map", "values": "int"}], None),
        ({**DECIMAL, "precision": 12, "scale": 2}, "decimal(12,2) not null"),
        ({**DECIMAL, "precision": 39, "scale": 2}, "string not null"),
        (logical("bytes", "big-decimal"), "string not null"),
        (logical("int", "date"), "date not null"),
        (logical("int", "time-millis"), "int32 not null"),
        (logical("long", "time-micros"), "int64 not null"),
        (logical("long", "timestamp-millis"), "timestamp not null"),
        (logical("long", "timestamp-micros"), "timestamp not null"),
        (logical("long", "timestamp-nanos"), "int64 not null"),
        (logical("long", "local-timestamp-millis"), "timestamp not null"),
        (logical("string", "uuid"), "string not null"),
        (
            {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
            "{months: int64 not null, days: int64 not null, millis: int64 not null} not null",
        ),
    ],
)
def test_the_column_of_a_type(avro: object, column: str | None) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": avro}]})
    (found,) = columns_of(parse_schema(text))
    expected = column or "{int: int32, map: [{key: string not null, value: int32 not null} not null]}"
    assert found == Field("a", *parse_type(expected))


@pytest.mark.parametrize("avro", ["null", ["null"], {"type": "record", "name": "E", "fields": []}])
def test_types_without_a_column(avro: object) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": avro}]})
    with pytest.raises(UserError, match="field a"):
        columns_of(parse_schema(text))


def test_the_schema_of_columns_is_canonical() -> None:
    columns = {"id": "int64 not null", "price": "decimal(12,2)", "at": "{x: int32 not null, y: [{z: date}]}"}
    assert schema_text(schema_of(columns), "shop.Order") == (
        '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
        '{"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}],'
        '"default":null},{"name":"at","type":["null",{"type":"record","name":"at_record","namespace":"shop.Order",'
        '"fields":[{"name":"x","type":"int"},{"name":"y","type":["null",{"type":"array","items":["null",'
        '{"type":"record","name":"y_record","namespace":"shop.Order.at_record","fields":[{"name":"z","type":'
        '["null",{"type":"int","logicalType":"date"}],"default":null}]}]}],"default":null}]}],"default":null}]}'
    )


def test_columns_come_back_from_their_schema() -> None:
    chance = Random(5)
    for _ in range(60):
        columns = _renamed(random_schema(chance))
        text = schema_text(columns)
        fastavro.parse_schema(json.loads(text))
        assert columns_of(parse_schema(text)) == columns


def _renamed(columns: Schema) -> Schema:
    """The same columns with names that Avro allows; those in structs have some already."""
    text = ", ".join(f"c{index}: {item.type_text}" for index, item in enumerate(columns) if _is_named(str(item.type)))
    fields = parse_type(f"{{{text or 'c: int32'}}}")[0]
    return Schema(fields.fields)  # type: ignore[union-attr]


def _is_named(text: str) -> bool:
    return "{" not in text


@pytest.mark.parametrize("name", ["a b", "é", "1a", "a-b", ""])
def test_names_that_avro_does_not_allow(name: str) -> None:
    with pytest.raises(UserError, match="Avro has no such name"):
        schema_text(Schema((Field(name, *parse_type("int32")),)))
    with pytest.raises(UserError, match="no name of an Avro record"):
        schema_text(schema_of({"a": "int32"}), f"x.{name}")
