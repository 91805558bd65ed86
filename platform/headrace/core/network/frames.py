"""Length-prefixed frames, the form of messages between the processes of one host. Pure: the caller passes the socket.

    length (4 bytes, big endian) | that many bytes

Used by the pipes of slots and connector hosts, and by commands to a template process. The exchange and Kafka's protocol
have their own headers (a kind, a checksum, a correlation id), so they use only `receive_exactly`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from headrace.core.errors import InternalError

ReceiveInto = Callable[[memoryview], int]
"""Such as `socket.recv_into`: fills a part of the buffer and returns its length; 0 is the end of the stream."""
_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size


class BrokenFrameError(ConnectionError):
    """The stream ended within a frame, or the frame is longer than its reader allows."""


def encode_frame(body: bytes, *, bytes_max: int) -> bytes:
    """A frame. Raises InternalError if the reader would reject its length."""
    if len(body) > bytes_max:
        raise InternalError(f"a frame of {len(body):,} bytes; its reader accepts {bytes_max:,}")
    return _LENGTH.pack(len(body)) + body


def decode_length(head: bytes, *, bytes_max: int) -> int:
    """The length of a frame that starts with these `LENGTH_BYTES` bytes. Raises BrokenFrameError if it exceeds
    `bytes_max`."""
    length = int(_LENGTH.unpack(head)[0])
    if length > bytes_max:
        raise BrokenFrameError(f"a frame of {length:,} bytes, more than {bytes_max:,}")
    return length


def receive_frame(receive_into: ReceiveInto, *, bytes_max: int) -> bytes | None:
    """The body of the next frame; None: the stream ended before it. Raises BrokenFrameError, OSError."""
    head = receive_exactly(receive_into, LENGTH_BYTES)
    if head is None:
        return None
    body = receive_exactly(receive_into, decode_length(head, bytes_max=bytes_max))
    if body is None:
        raise BrokenFrameError("the other end closed the connection within a frame")
    return body


def receive_exactly(receive_into: ReceiveInto, count: int) -> bytes | None:
    """`count` bytes; None: the stream ended before them. Raises BrokenFrameError if it ended among them, OSError."""
    data = bytearray(count)
    view = memoryview(data)
    while view:
        received = receive_into(view)
        if not received and len(view) == count:
            return None
        if not received:
            raise BrokenFrameError("the other end closed the connection within a frame")
        view = view[received:]
    return bytes(data)
