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
    CancelSlot,
    Deploy,
    EpochAborted,
    Failed,
    Failure,
    FinishSlot,
    FromSlot,
    FromWorker,
    SlotInfo,
    ToSlot,
    ToWorker,
)
from headrace.rpc.v1 import messages_pb2

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


def in_stream(encode: Callable[[Any], Any], decode: Callable[[Any], Any], proto: Any) -> Callable[[Any], Any]:
    return lambda message: decode(proto.FromString(encode(message).SerializeToString()))


@pytest.mark.parametrize(
    ("union", "passed"),
    [
        (FromWorker, in_stream(codec.from_worker_proto, codec.from_worker, messages_pb2.FromWorker)),
        (ToWorker, in_stream(codec.to_worker_proto, codec.to_worker, messages_pb2.ToWorker)),
        (FromSlot, lambda message: codec.from_slot(codec.from_slot_bytes(message))),
        (ToSlot, lambda message: codec.to_slot(codec.slot_command("slot", message).payload)),
    ],
)
def test_every_message_comes_back_as_it_was(union: Any, passed: Callable[[Any], Any]) -> None:
    @given(any_of(union))
    def there_and_back(message: Any) -> None:
        assert passed(message) == message

    there_and_back()


def test_a_worker_learns_from_the_envelope_what_it_has_to_know() -> None:
    told: list[ToSlot] = [Deploy("job", 1, "token", b""), FinishSlot(), CancelSlot(), EpochAborted(1)]
    facts = [(each.deploys, each.leaves) for each in (codec.slot_command("slot", message) for message in told)]
    assert facts == [(True, False), (False, True), (False, True), (False, False)]


def test_slot_info() -> None:
    info = SlotInfo("w.1", 12, Address("127.0.0.1", 4000, "run/1.sock"))
    assert codec.slot_info(codec.slot_info_bytes(info)) == info


def test_what_is_no_text_is_replaced() -> None:
    failure = Failure("no file caf\udce9", "external", retry=False, place="a\udcff")
    message = codec.from_slot(codec.from_slot_bytes(Failed("job", 1, failure)))
    assert message == Failed("job", 1, Failure("no file caf?", "external", retry=False, place="a?"))


@pytest.mark.parametrize("decode", [codec.to_slot, codec.from_slot])
def test_a_message_of_another_version_is_refused(decode: Callable[[bytes], object]) -> None:
    for payload in (b"", b"\x7a\x00"):
        with pytest.raises(ExternalError, match="does not know"):
            decode(payload)
    with pytest.raises(ExternalError, match="malformed"):
        decode(b"\xff")


def test_secrets_are_not_shown() -> None:
    deploy = Deploy("job", 1, "a secret", b"a secret")
    shown = [repr(deploy), repr(codec.slot_command("slot", deploy)), repr(CoordinatorAccess("h:1", "a secret"))]
    assert "secret" not in " ".join(shown)
