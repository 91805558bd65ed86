"""Control messages to their protobuf form and back, exactly.

One rule for all of them: a message and its fields have the same names on both sides, a union is a oneof named `kind`
with one field a member, `None` is a field that is not set. The protobuf side comes from `schemas/headrace/rpc/v1`; a
test sends every message there and back. Nothing of a job's rows passes here, so that reflection costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from google.protobuf.message import Message

from headrace.core.errors import ExternalError
from headrace.rpc.messages import FromSlot, FromWorker, SlotInfo, ToSlot, ToWorker
from headrace.rpc.v1 import control_pb2

_Proto = TypeVar("_Proto", bound=Message)


def from_worker_proto(message: FromWorker) -> control_pb2.FromWorker:
    """As protobuf."""
    return _encode_union(message, control_pb2.FromWorker())


def from_worker(proto: control_pb2.FromWorker) -> FromWorker:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("FromWorker", _decode_union(FromWorker, proto))


def to_worker_proto(message: ToWorker) -> control_pb2.ToWorker:
    """As protobuf."""
    return _encode_union(message, control_pb2.ToWorker())


def to_worker(proto: control_pb2.ToWorker) -> ToWorker:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("ToWorker", _decode_union(ToWorker, proto))


def from_slot_proto(message: FromSlot) -> control_pb2.FromSlot:
    """As protobuf."""
    return _encode_union(message, control_pb2.FromSlot())


def from_slot(proto: control_pb2.FromSlot) -> FromSlot:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("FromSlot", _decode_union(FromSlot, proto))


def to_slot_proto(message: ToSlot) -> control_pb2.ToSlot:
    """As protobuf."""
    return _encode_union(message, control_pb2.ToSlot())


def to_slot(proto: control_pb2.ToSlot) -> ToSlot:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("ToSlot", _decode_union(ToSlot, proto))


def slot_info_proto(info: SlotInfo) -> control_pb2.SlotInfo:
    """As protobuf."""
    proto = control_pb2.SlotInfo()
    _encode(info, proto)
    return proto


def slot_info(proto: control_pb2.SlotInfo) -> SlotInfo:
    """From protobuf."""
    return cast("SlotInfo", _decode(SlotInfo, proto))


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a dataclass. `kind`: its type without None; `optional`: it may be None."""

    name: str
    kind: Any
    optional: bool


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    return tuple(_field(each.name, hints[each.name]) for each in fields(cls))


def _field(name: str, hint: Any) -> _Field:
    members = [each for each in get_args(hint) if each is not type(None)] if _is_union(hint) else [hint]
    optional = _is_union(hint) and type(None) in get_args(hint)
    return _Field(name, members[0] if len(members) == 1 else hint, optional)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, UnionType)


@cache
def _members(union: UnionType) -> dict[str, type]:
    """The oneof's field -> the class that it carries."""
    return {_snake(cls.__name__): cls for cls in get_args(union)}


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _encode_union(value: object, proto: _Proto) -> _Proto:
    _encode(value, getattr(proto, _snake(type(value).__name__)))
    return proto


def _encode(value: Any, proto: Message) -> None:
    """Writes a dataclass into its message."""
    proto.SetInParent()  # a message without fields is there all the same
    for field in _fields(value.__class__):
        given = getattr(value, field.name)
        if given is None:
            continue
        if _is_union(field.kind):
            _encode_union(given, getattr(proto, field.name))
        elif is_dataclass(field.kind):
            _encode(given, getattr(proto, field.name))
        elif isinstance(given, tuple):
            for item in given:
                _encode(item, getattr(proto, field.name).add())
        elif isinstance(given, dict):
            for key, at in given.items():
                _encode_time(at, getattr(proto, field.name)[_text(key)])
        else:
            setattr(proto, field.name, _text(given) if isinstance(given, str) else given)


def _encode_time(at: int | None, proto: control_pb2.Time) -> None:
    proto.SetInParent()
    if at is not None:
        proto.value = at


def _text(text: str) -> str:
    """Names of files and messages of the system may hold bytes that are no text: those become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _decode_union(union: UnionType, proto: Message) -> object:
    kind = proto.WhichOneof("kind")
    if kind is None:
        raise ExternalError("a control message of a kind that this version does not know", remedy="update this side")
    return _decode(_members(union)[kind], getattr(proto, kind))


def _decode(cls: type, proto: Message) -> object:
    return cls(**{field.name: _decode_field(field, proto) for field in _fields(cls)})


def _decode_field(field: _Field, proto: Message) -> object:
    if field.optional and not proto.HasField(field.name):
        return None
    given = getattr(proto, field.name)
    if _is_union(field.kind):
        return _decode_union(field.kind, given)
    if is_dataclass(field.kind):
        return _decode(cast("type", field.kind), given)
    origin = get_origin(field.kind)
    if origin is tuple:
        return tuple(_decode(get_args(field.kind)[0], item) for item in given)
    if origin is dict:
        return {key: at.value if at.HasField("value") else None for key, at in given.items()}
    return cast("object", given)
