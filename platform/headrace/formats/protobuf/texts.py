"""Schemas as the texts that a registry holds: .proto sources, or base64 FileDescriptorProtos, which Confluent's Python
client registers. Only `compiler` reads sources."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from headrace.core.errors import UserError
from headrace.formats.protobuf.descriptors import FileDescriptor, ProtobufSchema
from headrace.formats.registry.schemas import WholeSchema

MAIN_FILE = "schema.proto"
"""The name of a schema's own file, which a registry does not know."""


def schema_of(schema: WholeSchema) -> ProtobufSchema:
    """The message types of a schema that `compiler.compiled` returned. Raises UserError for another one."""
    files, sources = divided({each.name: each.text for each in schema.imports})
    own = decoded(schema.text)
    if sources or own is None:
        raise UserError("the Protobuf schema is not compiled")
    return ProtobufSchema([*files, own], [own.name])


def divided(texts: Mapping[str, str]) -> tuple[list[FileDescriptor], dict[str, str]]:
    """The descriptors, with the names by which others import them, and the sources."""
    files, sources = [], {}
    for name, text in texts.items():
        file = decoded(text)
        if file is None:
            sources[name] = text
        else:
            file.name = name
            files.append(file)
    return files, sources


def decoded(text: str) -> FileDescriptor | None:
    """The file of a base64 FileDescriptorProto; None: the text is a source."""
    try:
        data = base64.b64decode(text.strip(), validate=True)
        return FileDescriptor.FromString(data) if data else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def encoded(file: FileDescriptor) -> str:
    """The inverse of `decoded`."""
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()
