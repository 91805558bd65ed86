"""References of a schema are followed with bounds, and their names never lead out of a folder."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.formats.registry.references import DEPTH_MAX, SCHEMAS_MAX, TEXT_BYTES_MAX, ReferenceWalk
from headrace.formats.registry.schemas import Import, Reference, Schema, SchemaUnusableError, WholeSchema


def schema(text: str, *references: Reference) -> Schema:
    return Schema("PROTOBUF", text, references)


def to(subject: str, version: int = 1, name: str | None = None) -> Reference:
    return Reference(name or f"{subject}.proto", subject, version)


def walked(first: Schema, known: dict[str, Schema]) -> tuple[WholeSchema, list[str]]:
    """The whole schema, and what was asked for."""
    walk, asked = ReferenceWalk(first), []
    while (place := walk.wanted()) is not None:
        asked.append(str(place))
        walk.add(place, known[place.subject])
    return walk.whole(), asked


def names(imports: Sequence[Import]) -> list[str]:
    return [each.text for each in imports]


def test_each_is_asked_for_once_and_stands_before_those_that_refer_to_it() -> None:
    known = {"a": schema("A", to("b"), to("c")), "b": schema("B", to("c")), "c": schema("C")}
    whole, asked = walked(schema("first", to("a"), to("c")), known)
    assert names(whole.imports) == ["C", "B", "A"]
    assert sorted(asked) == ["a version 1", "b version 1", "c version 1"]
    assert (whole.kind, whole.text) == ("PROTOBUF", "first")


@pytest.mark.parametrize(
    "name",
    ["../x.proto", "/etc/passwd", "a/../../b", "a//b", "..", "", "a\\b", "c:x", "a\0b", "./a", "x" * 600],
)
def test_names_that_lead_elsewhere_as_paths_are_refused(name: str) -> None:
    with pytest.raises(SchemaUnusableError, match="no name of a schema"):
        ReferenceWalk(schema("first", Reference(name, "a", 1)))


def test_names_of_types_and_of_files_in_folders_are_taken() -> None:
    for name in ("shop.Order", "google/protobuf/timestamp.proto", "größe.proto"):
        ReferenceWalk(schema("first", Reference(name, "a", 1)))


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"a": schema("A", to("a"))}, "refers to itself"),
        ({"a": schema("A", to("b")), "b": schema("B", to("a"))}, "refers to itself"),
        ({"a": schema("A", to("b", name="a.proto"))}, "is both"),
        ({"a": schema("A", to("a", name="other.proto"))}, "is both"),
        ({"a": schema("A", to("b", version=0))}, "which is none"),
        ({"a": Schema("AVRO", "A")}, "is AVRO"),
        ({"a": schema("A" * (TEXT_BYTES_MAX + 1))}, "16 MiB"),
    ],
)
def test_what_cannot_be_followed_is_refused(known: dict[str, Schema], reason: str) -> None:
    with pytest.raises(SchemaUnusableError, match=reason):
        walked(schema("first", to("a")), known)


def test_breadth_and_depth_are_bounded() -> None:
    wide = {str(each): schema("") for each in range(SCHEMAS_MAX + 1)}
    with pytest.raises(SchemaUnusableError, match="more than"):
        walked(schema("first", *map(to, wide)), wide)
    deep = {str(each): schema("", to(str(each + 1))) for each in range(DEPTH_MAX + 1)}
    with pytest.raises(SchemaUnusableError, match="more than"):
        walked(schema("first", to("0")), deep)
