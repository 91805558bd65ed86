"""Schemas as documents."""

from __future__ import annotations

import json

import pytest

from headrace.formats.registry.schemas import Import, WholeSchema

ALONE = WholeSchema("AVRO", '"long"')
REFERRING = WholeSchema("PROTOBUF", 'import "a.proto";', (Import("b.proto", "B"), Import("a.proto", "A")))


@pytest.mark.parametrize("schema", [ALONE, REFERRING])
def test_a_document_is_plain_json_and_gives_the_schema_back(schema: WholeSchema) -> None:
    assert WholeSchema.of(json.loads(json.dumps(schema.document()))) == schema


def test_a_digest_tells_schemas_apart_and_stays_the_same() -> None:
    assert ALONE.digest == "3ea10edfec87dad75116eecc28152e6bb6c4e6808cc454d0564d893fc9a5f444"
    swapped = WholeSchema("PROTOBUF", REFERRING.text, REFERRING.imports[::-1])
    assert len({each.digest for each in (ALONE, REFERRING, swapped, WholeSchema("JSON", ALONE.text))}) == 4
