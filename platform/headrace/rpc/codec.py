"""Converts control messages to protobuf and back, without loss.

Dataclasses and protobuf classes are generated from `schemas/headrace/rpc/v1/messages.proto` and have the same names. A
union is a message with one oneof `kind`; `None` is a field that is not set. A worker passes messages of its slots on as
bytes; only coordinator and slot decode them. No rows pass here, so the cost of reflection does not matter.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headrace.core.errors import ExternalError
from headrace.rpc import messages
from headrace.rpc.v1 import messages_pb2

_Proto = TypeVar("_Proto", bound=Message)


def from_worker_proto(message: messages.FromWorker) -> messages_pb2.FromWorker:
    """As protobuf."""
    return _union(message, messages_pb2.FromWorker())


def from_worker(proto: messages_pb2.FromWorker) -> messages.FromWorker:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("messages.FromWorker", _member(proto))


def to_worker_proto(message: messages.ToWorker) -> messages_pb2.ToWorker:
    """As protobuf."""
    return _union(message, messages_pb2.ToWorker())


def to_worker(proto: messages_pb2.ToWorker) -> messages.ToWorker:
    """From protobuf. Raises ExternalError for a kind that this version does not know."""
    return cast("messages.ToWorker", _member(proto))


def slot_info_bytes(info: messages.SlotInfo) -> bytes:
    """As bytes."""
    return _written(info, messages_pb2.SlotInfo()).SerializeToString()


def slot_info(data: bytes) -> messages.SlotInfo:
    """From bytes. Raises ExternalError."""
    return cast("messages.SlotInfo", _read(_parsed(data, messages_pb2.SlotInfo)))


def slot_command(slot: str, message: messages.ToSlot) -> messages.SlotCommand:
    """Encodes a message for a slot, with the facts that its worker needs without decoding it."""
    payload = _union(message, messages_pb2.ToSlot()).SerializeToString()
    leaves = isinstance(message, messages.CancelSlot | messages.FinishSlot)
    return messages.SlotCommand(slot, payload, deploys=isinstance(message, messages.Deploy), leaves=leaves)


def to_slot(payload: bytes) -> messages.ToSlot:
    """Decodes a message for a slot. Raises ExternalError for a kind that this version does not know."""
    return cast("messages.ToSlot", _member(_parsed(payload, messages_pb2.ToSlot)))


def from_slot_bytes(message: messages.FromSlot) -> bytes:
    """Encodes a slot's message."""
    return _union(message, messages_pb2.FromSlot()).SerializeToString()


def from_slot(payload: bytes) -> messages.FromSlot:
    """Decodes a slot's message. Raises ExternalError for a kind that this version does not know."""
    return cast("messages.FromSlot", _member(_parsed(payload, messages_pb2.FromSlot)))


@cache
def _members(union: Descriptor) -> dict[str, str]:
    """Name of a message -> the field of the union that carries it."""
    return {field.message_type.name: field.name for field in union.fields if field.message_type is not None}


@cache
def _fields(message: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(message.fields)


def _union(message: object, proto: _Proto) -> _Proto:
    _written(message, getattr(proto, _members(proto.DESCRIPTOR)[type(message).__name__]))
    return proto


def _written(message: object, proto: _Proto) -> _Proto:
    proto.SetInParent()  # marks a message without fields as present
    for field in _fields(proto.DESCRIPTOR):
        value = getattr(message, field.name)
        match value:
            case None:
                pass
            case tuple():
                for item in value:
                    _written(item, getattr(proto, field.name).add())
            case dict():
                for key, at in value.items():
                    entry = getattr(proto, field.name)[_text(key)]
                    if at is not None:
                        entry.value = at
            case str():
                setattr(proto, field.name, _text(value))
            case int() | bytes():
                setattr(proto, field.name, value)
            case _:
                _written(value, getattr(proto, field.name))
    return proto


def _text(text: str) -> str:
    """Text that protobuf accepts: surrogates (bytes of file names or system messages that are not UTF-8) become `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _parsed(data: bytes, kind: type[_Proto]) -> _Proto:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ExternalError("a control message is malformed", retry=True) from error


def _member(union: Message) -> object:
    kind = union.WhichOneof("kind")
    if kind is None:
        text = "a control message of a kind that this version does not know"
        raise ExternalError(text, remedy="update this side", retry=True)
    return _read(getattr(union, kind))


def _read(proto: Message) -> object:
    values = {field.name: _value(field, proto) for field in _fields(proto.DESCRIPTOR)}
    return getattr(messages, proto.DESCRIPTOR.name)(**values)


def _value(field: FieldDescriptor, proto: Message) -> object:
    value = getattr(proto, field.name)
    if field.message_type is None:
        return None if field.has_presence and not proto.HasField(field.name) else value
    if not field.is_repeated:
        return _read(value)
    if field.message_type.GetOptions().map_entry:
        return {key: at.value if at.HasField("value") else None for key, at in value.items()}
    return tuple(_read(item) for item in value)
