"""Splits large messages of a worker into frames, so that a coordinator never accepts a large frame of a stranger. Pure.

A stranger is a caller that has not proven that it knows the token; the limit of a frame holds for every stream.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from headrace.core.errors import ExternalError
from headrace.rpc.v1 import control_pb2, messages_pb2

PART_BYTES = 1 << 20
WORKER_FRAME_BYTES_MAX = PART_BYTES + (64 << 10)
"""A part and the other fields of its frame."""
MESSAGE_BYTES_MAX = 64 << 20


def in_parts(frame: control_pb2.WorkerFrame) -> Iterator[control_pb2.WorkerFrame]:
    """The frame, or frames of the same number that hold its message in parts."""
    if frame.message.ByteSize() <= PART_BYTES:
        yield frame
        return
    data = frame.message.SerializeToString()
    for start in range(0, len(data), PART_BYTES):
        part = data[start : start + PART_BYTES]
        more = start + PART_BYTES < len(data)
        yield control_pb2.WorkerFrame(number=frame.number, acknowledged=frame.acknowledged, part=part, more=more)


class Assembly:
    """Joins the parts of one stream's messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, frame: control_pb2.WorkerFrame) -> control_pb2.WorkerFrame | None:
        """The whole frame; None while parts are missing. Raises ExternalError for a message too large or malformed."""
        if not frame.part:
            return frame
        if len(self._data) + len(frame.part) > MESSAGE_BYTES_MAX:
            raise ExternalError(f"a message of its session has more than {MESSAGE_BYTES_MAX >> 20} MiB")
        self._data += frame.part
        if frame.more:
            return None
        data, self._data = bytes(self._data), bytearray()
        try:
            message = messages_pb2.FromWorker.FromString(data)
        except DecodeError as error:
            raise ExternalError("a message of its session is malformed") from error
        return control_pb2.WorkerFrame(number=frame.number, acknowledged=frame.acknowledged, message=message)
