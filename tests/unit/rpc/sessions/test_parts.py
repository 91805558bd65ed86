"""Large messages of a worker in parts, and strangers that send what is no part."""

from __future__ import annotations

import pytest

from headrace.core.errors import ExternalError
from headrace.rpc import codec
from headrace.rpc.messages import SlotDown
from headrace.rpc.sessions import parts
from headrace.rpc.sessions.parts import PART_BYTES, WORKER_FRAME_BYTES_MAX, Assembly, in_parts
from headrace.rpc.v1 import control_pb2


def frame(size: int) -> control_pb2.WorkerFrame:
    message = codec.from_worker_proto(SlotDown("s", "x" * size, clean=True))
    return control_pb2.WorkerFrame(number=7, acknowledged=3, message=message)


@pytest.mark.parametrize("size", [0, PART_BYTES, 5 * PART_BYTES + 1])
def test_a_message_comes_back_as_it_was(size: int) -> None:
    cut, assembly = list(in_parts(frame(size))), Assembly()
    assert all(each.ByteSize() <= WORKER_FRAME_BYTES_MAX for each in cut)
    whole = [assembly.add(each) for each in cut]
    assert whole[:-1] == [None] * (len(cut) - 1)
    assert whole[-1] == frame(size)


def test_parts_without_an_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MESSAGE_BYTES_MAX", 10)
    assembly = Assembly()
    assert assembly.add(control_pb2.WorkerFrame(number=1, part=b"12345678", more=True)) is None
    with pytest.raises(ExternalError, match="has more than"):
        assembly.add(control_pb2.WorkerFrame(number=1, part=b"12345678", more=True))


def test_parts_of_no_message_are_refused() -> None:
    with pytest.raises(ExternalError, match="malformed"):
        Assembly().add(control_pb2.WorkerFrame(number=1, part=b"\xff\xff"))
