"""Structural schemas: what Kubernetes requires of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, Field

from headrace.core.config import Duration
from headrace.kubernetes_operator.definitions import DEFINITIONS, Definition, definition_document, structural_schema
from support.operator.page import PAGE


class Inner(BaseModel):
    """An inner one.

    not   shown
    """

    size: int = Field(ge=1)


class Outer(BaseModel):
    inner: Inner | None = None
    times: tuple[Duration, ...] = ()
    texts: dict[str, str] = {}
    free: dict[str, Any] = {}


def test_references_optional_fields_and_defaults_are_gone() -> None:
    assert structural_schema(Outer)["properties"] == {
        "inner": {
            "type": "object",
            "description": "An inner one.",
            "required": ["size"],
            "properties": {"size": {"type": "integer", "minimum": 1}},
        },
        "times": {"type": "array", "items": {"type": "string", "pattern": r"^0$|^(\d+\s*(ms|s|m|h|d|w)\s*)+$"}},
        "texts": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }


def _schemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from _schemas(inner)
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from _schemas(schema[name])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.name)
def test_each_field_has_a_type_or_keeps_what_it_gets(definition: Definition) -> None:
    (version,) = definition_document(definition)["spec"]["versions"]
    schemas = list(_schemas(version["schema"]["openAPIV3Schema"]))
    assert len(schemas) > 15
    unknown = [each for each in schemas if "type" not in each and "x-kubernetes-preserve-unknown-fields" not in each]
    assert unknown == []
    assert not any({"$ref", "default", "anyOf", "title"} & each.keys() for each in schemas)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.name)
def test_columns_show_fields_that_there_are(definition: Definition) -> None:
    (version,) = definition_document(definition)["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for column in definition.columns:
        part, name = column.path.removeprefix(".").split(".")[:2]
        assert part == "metadata" or name.partition("[")[0] in properties[part]["properties"], column


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.kind.name)
def test_the_page_names_every_field(definition: Definition) -> None:
    text = PAGE.read_text()
    missing = [name for name in structural_schema(definition.spec)["properties"] if f"`{name}" not in text]
    # lines such as `coordinator.cpu`
    assert [name for name in missing if f"{name}: " not in text] == []
