"""What a registry holds: ids, schemas, and the references between schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

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

    def document(self) -> dict[str, Any]:
        """As plain JSON values: in messages, in what a format prepared, and in a job's folder."""
        imports = [[each.name, each.text] for each in self.imports]
        return {"kind": self.kind, "text": self.text} | ({"imports": imports} if imports else {})

    @staticmethod
    def of(document: Mapping[str, Any]) -> WholeSchema:
        """The inverse of `document`. Raises KeyError or ValueError for another document."""
        imports = tuple(Import(name, text) for name, text in document.get("imports", ()))
        return WholeSchema(document["kind"], document["text"], imports)

    @property
    def digest(self) -> str:
        """SHA-256 of the document, in hex: the same for equal schemas in every process."""
        return sha256(json.dumps(self.document(), sort_keys=True).encode()).hexdigest()


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
