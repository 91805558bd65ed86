"""Protobuf schemas: descriptors of files, and the message types in them.

Each schema has a descriptor pool, because two versions of a schema define the same names. Files of `google/protobuf/`
that the library has come from it, whatever a set holds under their names: headrace knows what their messages mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from headrace.core.errors import UserError, did_you_mean

SET_BYTES_MAX = 16 << 20
"""Most bytes of a schema's descriptors."""
FILES_MAX = 4_096
"""Most files of a schema."""
_NAMES_SHOWN_MAX = 8

FileDescriptor = descriptor_pb2.FileDescriptorProto
_GOOGLE_MODULES = (
    *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2),
    *(source_context_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
)


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message type of one schema.

    descriptor  its fields
    made        the class of its messages
    pool        all types of the schema
    """

    descriptor: Descriptor
    made: type[Message]
    pool: descriptor_pool.DescriptorPool = field(repr=False)

    @property
    def name(self) -> str:
        """The full name: `shop.Price`."""
        return self.descriptor.full_name


class ProtobufSchema:
    """The message types of some files.

    files  in any order; imports of Google's own files may be missing
    main   the names of the files that the schema consists of; the others are imports. None: those that no file imports
    """

    def __init__(self, files: Sequence[FileDescriptor], main: Sequence[str] | None = None) -> None:
        if len(files) > FILES_MAX:
            raise UserError(f"a Protobuf schema of {len(files):,} files", remedy=f"at most {FILES_MAX:,} are read")
        ordered = with_imports(files)
        self._pool = descriptor_pool.DescriptorPool()
        for each in ordered:
            _add(self._pool, each)
        imported = {name for each in ordered for name in each.dependency}
        self._main = tuple(main) if main is not None else tuple(f.name for f in files if f.name not in imported)

    @staticmethod
    def parse(descriptor_set: bytes) -> ProtobufSchema:
        """The schema of a serialized FileDescriptorSet. Raises UserError."""
        return ProtobufSchema(parse_set(descriptor_set))

    def message(self, name: str | None = None) -> MessageType:
        """The message with a full name; None: the only one. Raises UserError."""
        names = [each.full_name for each in self._top()]
        if name is None:
            if len(names) != 1:
                raise UserError(f"the Protobuf schema has {_listed(names)}", remedy="name one: message: NAME")
            return self._type(self._top()[0])
        try:
            return self._type(self._pool.FindMessageTypeByName(name))
        except KeyError:
            hint = did_you_mean(name, names) or f"it has {_listed(names)}"
            raise UserError(f"the Protobuf schema has no message {name!r}", remedy=hint) from None

    def message_at(self, path: Sequence[int]) -> MessageType:
        """The message at a path of indexes, the first of them in the main file. Raises UserError."""
        types: Sequence[Descriptor] = self._top() if len(self._main) == 1 else ()
        found: Descriptor | None = None
        for index in path:
            if not 0 <= index < len(types):
                raise UserError(f"the Protobuf schema has no message at the indexes {list(path)}")
            found = types[index]
            types = found.nested_types
        if found is None:
            raise UserError("a message of a Protobuf schema has an index or more")
        return self._type(found)

    def _top(self) -> list[Descriptor]:
        """The messages at the top level of the main files."""
        files = [self._pool.FindFileByName(name) for name in self._main]
        return [each for file in files for each in file.message_types_by_name.values()]

    def _type(self, descriptor: Descriptor) -> MessageType:
        return MessageType(descriptor, message_factory.GetMessageClass(descriptor), self._pool)


def parse_set(descriptor_set: bytes) -> list[FileDescriptor]:
    """The files of a serialized FileDescriptorSet. Raises UserError."""
    remedy = "write it with: protoc --include_imports --descriptor_set_out=FILE NAME.proto"
    if len(descriptor_set) > SET_BYTES_MAX:
        raise UserError(
            f"a Protobuf descriptor set of {len(descriptor_set):,} bytes",
            remedy=f"at most {SET_BYTES_MAX >> 20} MiB are read",
        )
    try:
        files = list(descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file)
    except DecodeError as cause:
        raise UserError("no Protobuf descriptor set: its bytes are none", remedy=remedy) from cause
    if not files or not all(each.name for each in files):
        raise UserError("no Protobuf descriptor set: it has no files, or files without names", remedy=remedy)
    return files


def with_imports(files: Sequence[FileDescriptor]) -> list[FileDescriptor]:
    """The files with Google's own ones that they import, each behind its imports. Raises UserError."""
    known = {each.name: each for each in files}
    if len(known) < len(files):
        raise UserError("the Protobuf schema has two files of one name")
    google, order, waiting = google_files(), TopologicalSorter[str](), list(known)
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        known[name] = google.get(name) or known[name]
        order.add(name, *known[name].dependency)
        for imported in known[name].dependency:
            if imported in seen:
                continue
            if imported not in google:
                raise UserError(
                    f"Protobuf: {name} imports {imported}, which is missing",
                    remedy="add it: protoc --include_imports, or a reference of the schema in its registry",
                )
            known[imported] = google[imported]
            seen.add(imported)
            waiting.append(imported)
    try:
        return [known[name] for name in order.static_order()]
    except CycleError as cause:
        raise UserError(f"Protobuf: {' imports '.join(cause.args[1])}: files import each other") from cause


@cache
def google_files() -> dict[str, FileDescriptor]:
    """Google's own files that the library has, by name. Not to be changed."""
    files = [FileDescriptor.FromString(module.DESCRIPTOR.serialized_pb) for module in _GOOGLE_MODULES]
    return {each.name: each for each in files}


def _add(pool: descriptor_pool.DescriptorPool, file: FileDescriptor) -> None:
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as cause:
        what = str(cause).removeprefix("Couldn't build proto file into descriptor pool: ")
        raise UserError(f"Protobuf: {file.name}: {what}", remedy="compile its source again with protoc") from cause


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN_MAX])
    more = f" and {len(names) - _NAMES_SHOWN_MAX} more" if len(names) > _NAMES_SHOWN_MAX else ""
    return f"the messages {shown}{more}" if len(names) > 1 else f"the message {shown}" if names else "no message"
