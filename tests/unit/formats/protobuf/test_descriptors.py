"""Descriptors of files become message types: by name, alone, or by indexes; what is no schema is refused."""

from __future__ import annotations

from random import Random

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from headrace.core.errors import UserError
from headrace.formats.protobuf import descriptors
from headrace.formats.protobuf.columns import columns_of
from headrace.formats.protobuf.descriptors import ProtobufSchema
from support.protobuf.sources import descriptor_set, schema

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Price { int64 id = 1; google.protobuf.Timestamp at = 2; message Part { int32 x = 1; message Inner { bool y = 1; } } }
message Order { Price price = 1; }
"""  # noqa: E501


def file(name: str, *imports: str, message: str = "", package: str = "t") -> FileDescriptorProto:
    made = FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)
    if message:
        made.message_type.add(name=message).field.add(name="a", number=1, type=5, label=1)
    return made


def test_a_message_by_name_and_by_indexes() -> None:
    shop = schema(SHOP)
    assert shop.message("shop.Order").name == "shop.Order"
    assert shop.message("shop.Price.Part").name == "shop.Price.Part"
    paths = [(0,), (1,), (0, 0), (0, 0, 0)]
    names = ["shop.Price", "shop.Order", "shop.Price.Part", "shop.Price.Part.Inner"]
    assert [shop.message_at(path).name for path in paths] == names


@pytest.mark.parametrize("path", [(), (2,), (-1,), (0, 1), (1, 0), (0, 0, 0, 0)])
def test_indexes_of_no_message(path: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="index"):
        schema(SHOP).message_at(path)


def test_the_only_message() -> None:
    """Imports do not count."""
    source = (
        'syntax = "proto3"; import "google/protobuf/any.proto"; message A { google.protobuf.Any a = 1; message B {} }'
    )
    assert schema(source).message().name == "A"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "has the messages shop.Price, shop.Order\n  name one: message: NAME"),
        ("shop.Prise", "no message 'shop.Prise'\n  did you mean 'shop.Price'?"),
        ("Zebra", "no message 'Zebra'\n  it has the messages shop.Price, shop.Order"),
    ],
)
def test_a_message_that_is_not_there(name: str | None, message: str) -> None:
    with pytest.raises(UserError) as refused:
        schema(SHOP).message(name)
    assert message in str(refused.value)


def test_imports_of_google_may_be_missing() -> None:
    """protoc without --include_imports; files may stand in any order."""
    whole = FileDescriptorSet.FromString(descriptor_set(SHOP))
    own = [each for each in whole.file if each.name == "test.proto"]
    assert ProtobufSchema(own).message("shop.Price").name == "shop.Price"
    assert ProtobufSchema(list(reversed(whole.file))).message_at([1]).name == "shop.Order"


def test_two_versions_define_the_same_name() -> None:
    first, second = schema('syntax = "proto3"; message A { int32 a = 1; }'), schema('syntax = "proto3"; message A {}')
    assert [len(each.message("A").descriptor.fields) for each in (first, second)] == [1, 0]


def test_google_files_come_from_the_library() -> None:
    """A set may hold others under their names."""
    false = file("google/protobuf/timestamp.proto", message="Timestamp", package="google.protobuf")
    own = file("a.proto", "google/protobuf/timestamp.proto")
    field = own.message_type.add(name="M").field.add(name="at", number=1, type=11, label=1)
    field.type_name = ".google.protobuf.Timestamp"
    (column,) = columns_of(ProtobufSchema([own, false]).message("t.M"))
    assert str(column) == "at: timestamp"


def test_a_name_of_google_in_another_file_has_no_meaning() -> None:
    false = file("mine.proto", message="Timestamp", package="google.protobuf")
    own = file("a.proto", "mine.proto")
    field = own.message_type.add(name="M").field.add(name="at", number=1, type=11, label=1)
    field.type_name = ".google.protobuf.Timestamp"
    (column,) = columns_of(ProtobufSchema([own, false]).message("t.M"))
    assert str(column) == "at: {a: int32 not null}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has no files"),
        (b"\xff", "its bytes are none"),
        (FileDescriptorSet(file=[FileDescriptorProto()]).SerializeToString(), "without names"),
        (FileDescriptorSet(file=[file("a", "b")]).SerializeToString(), "a imports b, which is missing"),
        (FileDescriptorSet(file=[file("a"), file("a")]).SerializeToString(), "two files of one name"),
        (
            FileDescriptorSet(file=[file("a", message="M"), file("b", message="M")]).SerializeToString(),
            "duplicate symbol",
        ),
        (FileDescriptorSet(file=[file("a", "b"), file("b", "a")]).SerializeToString(), "files import each other"),
        (
            FileDescriptorSet(file=[file("a", message="M"), file("b", message="M")]).SerializeToString(),
            "duplicate symbol 't.M'",
        ),
    ],
)
def test_bytes_that_are_no_schema(data: bytes, message: str) -> None:
    with pytest.raises(UserError) as refused:
        ProtobufSchema.parse(data)
    assert message in str(refused.value)


def test_schemas_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "SET_BYTES_MAX", 10)
    with pytest.raises(UserError, match="bytes"):
        ProtobufSchema.parse(descriptor_set(SHOP))
    monkeypatch.setattr(descriptors, "FILES_MAX", 1)
    with pytest.raises(UserError, match="2 files"):
        ProtobufSchema([file("a"), file("b")])


def test_damaged_descriptors_are_refused_or_have_columns() -> None:
    """A registry's descriptors are not trusted: nothing but UserError may come of them."""
    whole, chance, usable = descriptor_set(SHOP), Random(3), 0
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            columns_of(ProtobufSchema.parse(bytes(data)).message_at([0]))
            usable += 1
        except UserError:
            continue
    assert 30 < usable < 2_900
