"""What a registry holds: ids, schemas, and the references between schemas. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.core.errors import ExternalError

SchemaId = int | str
"""A number, known to one registry in one context, or a GUID as text, which is the same everywhere."""
SchemaKind = Literal["AVRO", "PROTOBUF", "JSON"]
ID_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one names.

    name     how that names it: an Avro name, or the path of an import
    subject  and version: where the registry has it
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was registered. text: Avro's JSON, .proto source, or a base64 FileDescriptorProto."""

    kind: SchemaKind
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Import:
    """A schema that is referred to, by its name there."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class WholeSchema:
    """A schema with the texts of all that it refers to, directly or through others.

    imports   each before those that refer to it
    """

    kind: SchemaKind
    text: str
    imports: tuple[Import, ...] = ()


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject. id: the schema's number."""

    subject: str
    version: int
    id: int
    schema: Schema


class SchemaUnusableError(ExternalError):
    """A schema that a registry has and that cannot be used: it has rules, or references that cannot be followed."""


def guid_text(guid: bytes) -> str:
    """16 bytes as RFC 9562 writes them."""
    digits = guid.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
