"""Avro schemas: names, logical types, what is refused and where, bounds."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import UserError
from headrace.formats.avro.schema import (
    DIGITS_MAX,
    NESTING_MAX,
    SCHEMA_CHARACTERS_MAX,
    TYPES_MAX,
    Array,
    Enum,
    Fixed,
    Logical,
    Map,
    Plain,
    PlainKind,
    Record,
    RecordField,
    Union,
    parse_schema,
)

INT, LONG, NULL, STRING = (Plain(PlainKind(name)) for name in ("int", "long", "null", "string"))


def record(*fields: object, name: str = "R", **more: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, avro: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": avro, **more}


def parsed(schema: object, *references: object) -> object:
    return parse_schema(json.dumps(schema), [json.dumps(one) for one in references])


def test_every_kind_of_type() -> None:
    schema = record(
        field("a", "int", default=5, aliases=["old"]),
        field("b", ["null", "string"], default=None),
        field("c", {"type": "array", "items": {"type": "map", "values": "long"}}),
        field("d", {"type": "enum", "name": "E", "symbols": ["X", "Y"], "default": "X"}),
        field("e", {"type": "fixed", "name": "F", "size": 3}),
    )
    assert parsed(schema) == Record(
        "R",
        (
            RecordField("a", INT, ("old",), 5, has_default=True),
            RecordField("b", Union((NULL, STRING)), has_default=True),
            RecordField("c", Array(Map(LONG))),
            RecordField("d", Enum("E", ("X", "Y"), (), "X")),
            RecordField("e", Fixed("F", 3)),
        ),
    )


@pytest.mark.parametrize("text", ["long", '"long"', '{"type":"long"}', '{"type":{"type":"long"}}', " long\n"])
def test_forms_of_a_plain_type(text: str) -> None:
    assert parse_schema(text) == LONG


def test_names_have_the_namespace_around_them() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    schema = record(
        field("a", inner), field("b", "F"), field("c", "x.y.F"), name="R", namespace="x.y", aliases=["Q", "z.Q"]
    )
    found = parsed(schema)
    assert isinstance(found, Record)
    assert (found.name, found.aliases) == ("x.y.R", ("x.y.Q", "z.Q"))
    assert [item.type for item in found.fields] == [Fixed("x.y.F", 1)] * 3


def test_a_dotted_name_carries_its_namespace() -> None:
    found = parsed(record(field("a", {"type": "fixed", "name": "F", "size": 1}), name="p.R", namespace="ignored"))
    assert isinstance(found, Record)
    assert found.fields[0].type == Fixed("p.F", 1)


def test_references_are_known_in_order() -> None:
    fixed = {"type": "fixed", "name": "n.F", "size": 2}
    inner = record(field("f", "n.F"), name="n.In")
    found = parsed(record(field("a", "n.In"), field("b", "n.F")), fixed, inner)
    assert isinstance(found, Record)
    assert found.fields[0].type == Record("n.In", (RecordField("f", Fixed("n.F", 2)),))
    assert found.fields[1].type == Fixed("n.F", 2)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, Logical("timestamp-millis")),
        ({"type": "int", "logicalType": "timestamp-millis"}, None),
        ({"type": "int", "logicalType": "date"}, Logical("date")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, Logical("decimal", 4, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, Logical("decimal", 4, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": DIGITS_MAX + 1}, None),
        ({"type": "string", "logicalType": "uuid"}, Logical("uuid")),
        ({"type": "string", "logicalType": "unheard-of"}, None),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, Logical("timestamp-micros")),
        ({"type": "int", "connect.name": "io.debezium.time.MicroTimestamp"}, None),
        ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, Logical("zoned-timestamp")),
    ],
)
def test_logical_types_stand_where_they_may(schema: object, expected: Logical | None) -> None:
    found = parsed(schema)
    assert isinstance(found, Plain)
    assert found.logical == expected


@pytest.mark.parametrize(("size", "name", "kept"), [(16, "uuid", 1), (15, "uuid", 0), (12, "duration", 1)])
def test_logical_types_of_fixed(size: int, name: str, kept: int) -> None:
    found = parsed({"type": "fixed", "name": "F", "size": size, "logicalType": name})
    assert found == Fixed("F", size, (), Logical(name) if kept else None)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (record(field("a", record(field("b", ["null", "R"]), name="S"))), "field a.b is a R inside of a R"),
        (record(field("a", {"type": "array", "items": "null"})), "field a: items of type null have no bytes"),
        (record(field("a", {"type": "array", "items": record(name="E")})), "items of type E have no bytes"),
        (record(field("a", "Nope")), "field a: there is no type 'Nope'"),
        (record(field("a", 5)), "field a: 5 is no type"),
        (record(field("a", {"type": "array"})), "field a[]: null is no type"),
        (record(field("a", [["null"]])), "field a: a union has one branch or more, none of them a union"),
        (record(field("a", [])), "a union has one branch or more"),
        (record(field("a", ["int", "int"])), "field a: a union has two branches of one type"),
        (record(field("a", "int"), field("a", "int")), "record R has two fields of one name"),
        (record(field("a", record())), "field a: type R is defined twice"),
        (record({"name": "a"}), '{"name":"a"} is no field'),
        ({"type": "record", "name": "R"}, "record R has no list of fields"),
        ({"type": "record", "fields": []}, "a record has no name"),
        ({"type": "enum", "name": "E", "symbols": []}, "enum E has no list of symbols"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "the default of enum E is none of"),
        ({"type": "fixed", "name": "F", "size": -1}, "fixed F has a size of -1"),
        ({"type": "fixed", "name": "F", "size": 1 << 40}, "fixed F has a size of 1099511627776"),
        ({"items": "int"}, "has no type"),
    ],
)
def test_what_is_refused_names_its_place(schema: object, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parsed(schema)
    assert message in str(refused.value)


def test_text_that_is_no_schema() -> None:
    for text in ("", "{", "[1", "a b"):
        with pytest.raises(UserError):
            parse_schema(text)


def test_bounds() -> None:
    with pytest.raises(UserError, match="characters"):
        parse_schema('"' + "x" * SCHEMA_CHARACTERS_MAX + '"')
    deep: object = "int"
    for _ in range(NESTING_MAX):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UserError, match=f"more than {NESTING_MAX} types in each other"):
        parsed(deep)
    with pytest.raises(UserError):
        parse_schema('{"type":' * 5_000)


def test_names_that_stand_for_many_types_are_bounded() -> None:
    """Each record has ten of the one before: text of one line stands for a million types, or for many levels."""
    inner = record(*(field(f"f{index}", "int") for index in range(10)), name="L0")
    schemas = [inner]
    for level in range(1, 7):
        fields = (field(f"f{index}", f"L{level - 1}") for index in range(10))
        schemas.append(record(*fields, name=f"L{level}"))
    with pytest.raises(UserError, match=f"more than {TYPES_MAX:,} types"):
        parsed(schemas[-1], *schemas[:-1])
    chain = [record(field("a", "int"), name="N0")]
    chain += [record(field("a", f"N{level - 1}"), name=f"N{level}") for level in range(1, NESTING_MAX + 1)]
    with pytest.raises(UserError, match="types in each other"):
        parsed(chain[-1], *chain[:-1])
