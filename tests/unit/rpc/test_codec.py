"""Control messages in their protobuf form: every one comes back as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError
from headrace.rpc import codec
from headrace.rpc.client import CoordinatorAccess
from headrace.rpc.messages import (
    Address,
    Deploy,
    Failed,
    Failure,
    FromSlot,
    FromWorker,
    SlotInfo,
    ToSlot,
    ToWorker,
)
from headrace.rpc.v1 import control_pb2

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: INT64,
    str: TEXT,
    bytes: st.binary(max_size=16),
    bool: st.booleans(),
    type(None): st.none(),
}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type; integers that 64 bits hold."""
    if isinstance(hint, type) and is_dataclass(hint):
        return st.builds(hint, **{name: any_of(each) for name, each in get_type_hints(hint).items()})
    match get_origin(hint), get_args(hint):
        case None, _:
            return SCALARS[hint]
        case origin, (item, *_) if origin is tuple:
            return st.lists(any_of(item), max_size=3).map(tuple)
        case origin, (key, value) if origin is dict:
            return st.dictionaries(any_of(key), any_of(value), max_size=3)
        case _, members:
            return st.one_of([any_of(member) for member in members])


@pytest.mark.parametrize(
    ("union", "encode", "decode", "proto"),
    [
        (FromWorker, codec.from_worker_proto, codec.from_worker, control_pb2.FromWorker),
        (ToWorker, codec.to_worker_proto, codec.to_worker, control_pb2.ToWorker),
        (FromSlot, codec.from_slot_proto, codec.from_slot, control_pb2.FromSlot),
        (ToSlot, codec.to_slot_proto, codec.to_slot, control_pb2.ToSlot),
    ],
)
def test_every_message_comes_back_as_it_was(
    union: Any, encode: Callable[[Any], Any], decode: Callable[[Any], Any], proto: Any
) -> None:
    @given(any_of(union))
    def there_and_back(message: Any) -> None:
        data = encode(message).SerializeToString()
        assert decode(proto.FromString(data)) == message

    there_and_back()


@pytest.mark.parametrize(
    ("union", "proto"),
    [
        (FromWorker, control_pb2.FromWorker),
        (ToWorker, control_pb2.ToWorker),
        (FromSlot, control_pb2.FromSlot),
        (ToSlot, control_pb2.ToSlot),
    ],
)
def test_unions_and_oneofs_have_the_same_members(union: Any, proto: Any) -> None:
    carried = {field.message_type.name for field in proto.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert carried == {member.__name__ for member in get_args(union)}


def test_fields_have_the_same_names_on_both_sides() -> None:
    for union in (FromWorker, ToWorker, FromSlot, ToSlot):
        for member in [*get_args(union), Failure, Address, SlotInfo]:
            fields = {field.name for field in getattr(control_pb2, member.__name__).DESCRIPTOR.fields}
            assert fields == set(member.__dataclass_fields__), member.__name__


def test_slot_info() -> None:
    info = SlotInfo("w.1", 12, Address("127.0.0.1", 4000, "run/1.sock"))
    assert codec.slot_info(codec.slot_info_proto(info)) == info


def test_what_is_no_text_is_replaced() -> None:
    failure = Failure("no file caf\udce9", "external", retry=False, place="a\udcff")
    message = codec.from_slot(codec.from_slot_proto(Failed("job", 1, failure)))
    assert message == Failed("job", 1, Failure("no file caf?", "external", retry=False, place="a?"))


def test_a_message_of_another_version_is_refused() -> None:
    with pytest.raises(ExternalError, match="does not know"):
        codec.to_slot(control_pb2.ToSlot())


def test_secrets_are_not_shown() -> None:
    shown = [repr(Deploy("job", 1, "a secret", b"a secret")), repr(CoordinatorAccess("h:1", "a secret"))]
    assert "secret" not in " ".join(shown)
