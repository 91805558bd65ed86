"""Compiles sources in this process, in milliseconds; the product's compiler starts one of its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc_tools
from grpc_tools import protoc

from headrace.formats.protobuf.descriptors import ProtobufSchema

GOOGLE = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


@cache
def descriptor_set(source: str) -> bytes:
    """The FileDescriptorSet of a source and what it imports of Google's."""
    google = Path(grpc_tools.__file__).parent / "_proto"
    with TemporaryDirectory() as folder:
        Path(folder, "test.proto").write_text(source)
        out = Path(folder, "out")
        arguments = ["", f"-I{folder}", f"-I{google}", "--include_imports", f"--descriptor_set_out={out}", "test.proto"]
        assert protoc.main(arguments) == 0, source
        return out.read_bytes()


def schema(source: str) -> ProtobufSchema:
    """The schema of a source."""
    return ProtobufSchema.parse(descriptor_set(source))


def proto3(body: str) -> ProtobufSchema:
    """The schema of declarations in proto3, which may use Google's messages."""
    return schema(f'syntax = "proto3"; package t; {imports()} {body}')


def imports() -> str:
    """Imports of Google's messages."""
    return " ".join(f'import "google/protobuf/{name}.proto";' for name in GOOGLE)
