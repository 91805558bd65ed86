"""The pipe between supervisor and slot: frames, beats that overtake, bounds, and both kinds of end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.core.errors import InternalError
from headrace.worker.slot import slot_pipe
from headrace.worker.slot.slot_pipe import QUEUED_FRAMES_MAX, PipeFullError, SlotPipe
from support.processes.running import WAIT_SECONDS, wait_until


def numbered(number: int) -> bytes:
    return str(number).encode()


@contextmanager
def pipe(beat_s: float = 60.0) -> Iterator[tuple[SlotPipe, SlotPipe]]:
    ours, theirs = socket.socketpair()
    supervisor, slot = SlotPipe(ours, beat_s), SlotPipe(theirs, beat_s)
    try:
        yield supervisor, slot
    finally:
        supervisor.close()
        slot.close()


@contextmanager
def lone_end() -> Iterator[tuple[SlotPipe, socket.socket]]:
    """A supervisor's end whose slot reads nothing."""
    ours, theirs = socket.socketpair()
    supervisor = SlotPipe(ours, 60.0)
    try:
        yield supervisor, theirs
    finally:
        supervisor.close()
        theirs.close()


def message(end: SlotPipe) -> bytes:
    """That of the next frame that is no beat."""
    while (frame := end.receive()) is not None:
        if frame.message:
            return frame.message
    raise AssertionError("the pipe is closed")


def test_frames_come_in_order_and_large_ones_whole() -> None:
    messages = [b"1", b"x" * (20 << 20), b"2"]
    with pipe() as (supervisor, slot):
        for each in messages:
            supervisor.send_nowait(each)
        assert [message(slot) for _ in range(3)] == messages


def test_an_end_beats_by_itself_and_says_when() -> None:
    begun_ns = time.monotonic_ns()
    with pipe(beat_s=0.01) as (_, slot):
        frames = [slot.receive() for _ in range(3)]
        sent = [frame.sent_ns for frame in frames if frame is not None and not frame.message]
        assert begun_ns < sent[0] < sent[1] < sent[2] < time.monotonic_ns()


def test_a_full_pipe_is_told_or_waits_for_room() -> None:
    with lone_end() as (supervisor, reading):

        def fill() -> None:
            for epoch in range(100 * QUEUED_FRAMES_MAX):
                supervisor.send_nowait(numbered(epoch))

        with pytest.raises(PipeFullError):
            fill()
        waiting = threading.Thread(target=supervisor.send, args=(numbered(-1),))
        waiting.start()
        reading.settimeout(0.1)  # it may have its room, and all may be read, before it is seen to have ended
        while waiting.is_alive():
            with suppress(TimeoutError):
                reading.recv(1 << 16)
        waiting.join()


def test_nobody_waits_at_a_pipe_that_the_other_end_has_closed() -> None:
    with lone_end() as (supervisor, theirs):
        with pytest.raises(PipeFullError):
            for epoch in range(100 * QUEUED_FRAMES_MAX):
                supervisor.send_nowait(numbered(epoch))
        waiting = threading.Thread(target=supervisor.send, args=(numbered(-1),))
        waiting.start()
        theirs.close()
        waiting.join()
        assert supervisor.receive() is None
        assert supervisor.flush(WAIT_SECONDS)


def test_a_frame_that_is_cut_off_is_the_end() -> None:
    with lone_end() as (supervisor, theirs):
        theirs.sendall(b"\x00\x00\x00\x11" + bytes(8) + b"abc")
        theirs.close()
        assert supervisor.receive() is None


def test_a_message_that_is_too_large_passes_neither_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pipe() as (supervisor, slot):
        supervisor.send(b"x" * 11)
        assert supervisor.flush(WAIT_SECONDS)
        monkeypatch.setattr(slot_pipe, "FRAME_BYTES_MAX", 18)
        for send in (supervisor.send, supervisor.send_nowait):
            with pytest.raises(InternalError, match=r"a frame of 19 bytes .* at most 18 pass"):
                send(b"x" * 11)
        while (frame := slot.receive()) is not None:
            assert not frame.message


def test_what_was_queued_is_written_when_flush_returns() -> None:
    with pipe() as (supervisor, slot):
        for epoch in range(1_000):
            supervisor.send(numbered(epoch))
        read: list[int] = []
        reader = threading.Thread(target=lambda: read.extend(int(message(slot)) for _ in range(1_000)))
        reader.start()
        assert supervisor.flush(WAIT_SECONDS)
        reader.join()
        assert read == list(range(1_000))


def test_closing_ends_a_reader_of_this_end() -> None:
    with pipe() as (supervisor, slot):
        ended = threading.Event()

        def read() -> None:
            while slot.receive() is not None:
                pass
            ended.set()

        reader = threading.Thread(target=read)
        reader.start()
        supervisor.close()
        wait_until(ended.is_set, "the reader ends")
        reader.join()
