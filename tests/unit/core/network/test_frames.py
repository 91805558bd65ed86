"""Length-prefixed frames: whole whatever the socket gives at a time, bounded, and never cut off in silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.core.network.frames import BrokenFrameError, decode_length, encode_frame, receive_exactly, receive_frame

BYTES_MAX = 100


class Stream:
    """Gives at most `piece` bytes at a time."""

    def __init__(self, data: bytes, piece: int = 1) -> None:
        self.data, self.piece = data, piece

    def __call__(self, view: memoryview) -> int:
        part = self.data[: min(self.piece, len(view))]
        view[: len(part)] = part
        self.data = self.data[len(part) :]
        return len(part)


@given(bodies=st.lists(st.binary(max_size=BYTES_MAX), max_size=5), piece=st.integers(1, 300))
def test_frames_are_received_as_they_were_sent(bodies: list[bytes], piece: int) -> None:
    stream = Stream(b"".join(encode_frame(body, bytes_max=BYTES_MAX) for body in bodies), piece)
    assert [receive_frame(stream, bytes_max=BYTES_MAX) for _ in bodies] == bodies
    assert receive_frame(stream, bytes_max=BYTES_MAX) is None


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_stream_that_ends_within_a_frame_is_broken(cut: int) -> None:
    data = encode_frame(b"abc", bytes_max=BYTES_MAX)
    with pytest.raises(BrokenFrameError, match="within a frame"):
        receive_frame(Stream(data[:cut]), bytes_max=BYTES_MAX)


def test_a_frame_above_the_bound_is_neither_sent_nor_received() -> None:
    with pytest.raises(InternalError, match="a frame of 101 bytes; its reader accepts 100"):
        encode_frame(b"x" * (BYTES_MAX + 1), bytes_max=BYTES_MAX)
    data = encode_frame(b"x" * (BYTES_MAX + 1), bytes_max=BYTES_MAX + 1)
    with pytest.raises(BrokenFrameError, match="a frame of 101 bytes, more than 100"):
        receive_frame(Stream(data), bytes_max=BYTES_MAX)
    with pytest.raises(BrokenFrameError):
        decode_length(b"\xff\xff\xff\xff", bytes_max=BYTES_MAX)


def test_nothing_more_is_taken_from_a_stream_than_was_asked_for() -> None:
    stream = Stream(b"abcdef", piece=10)
    assert receive_exactly(stream, 4) == b"abcd"
    assert stream.data == b"ef"
    assert receive_exactly(stream, 0) == b""
