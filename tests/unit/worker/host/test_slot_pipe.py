"""The pipe between supervisor and slot: frames, beats that overtake, bounds, and both kinds of end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from headrace.rpc import codec
from headrace.rpc.messages import Deploy, EpochCompleted
from headrace.rpc.v1 import slot_pipe_pb2
from headrace.worker.host.slot_pipe import QUEUED_FRAMES_MAX, PipeFull, SlotPipe
from support.running import WAIT_SECONDS, wait_until

Supervisor = SlotPipe[slot_pipe_pb2.SupervisorFrame, slot_pipe_pb2.SlotFrame]
Slot = SlotPipe[slot_pipe_pb2.SlotFrame, slot_pipe_pb2.SupervisorFrame]


def supervisor_beat(sent_ns: int) -> slot_pipe_pb2.SupervisorFrame:
    return slot_pipe_pb2.SupervisorFrame(beat=slot_pipe_pb2.Beat(sent_ns=sent_ns))


def slot_beat(sent_ns: int) -> slot_pipe_pb2.SlotFrame:
    return slot_pipe_pb2.SlotFrame(beat=slot_pipe_pb2.Beat(sent_ns=sent_ns))


def completed(epoch: int) -> slot_pipe_pb2.SupervisorFrame:
    return slot_pipe_pb2.SupervisorFrame(told=codec.to_slot_proto(EpochCompleted(epoch)))


@contextmanager
def pipe(beat_s: float = 60.0) -> Iterator[tuple[Supervisor, Slot]]:
    ours, theirs = socket.socketpair()
    supervisor: Supervisor = SlotPipe(ours, slot_pipe_pb2.SlotFrame.FromString, supervisor_beat, beat_s)
    slot: Slot = SlotPipe(theirs, slot_pipe_pb2.SupervisorFrame.FromString, slot_beat, beat_s)
    try:
        yield supervisor, slot
    finally:
        supervisor.close()
        slot.close()


@contextmanager
def lone_end() -> Iterator[tuple[Supervisor, socket.socket]]:
    """A supervisor's end whose slot reads nothing."""
    ours, theirs = socket.socketpair()
    supervisor: Supervisor = SlotPipe(ours, slot_pipe_pb2.SlotFrame.FromString, supervisor_beat, 60.0)
    try:
        yield supervisor, theirs
    finally:
        supervisor.close()
        theirs.close()


def told(end: Slot) -> slot_pipe_pb2.SupervisorFrame:
    """The next frame that is no beat."""
    while (frame := end.receive()) is not None:
        if frame.WhichOneof("kind") == "told":
            return frame
    raise AssertionError("the pipe is closed")


def test_frames_come_in_order_and_large_ones_whole() -> None:
    large = Deploy("job", 1, "secret", b"x" * (20 << 20))
    with pipe() as (supervisor, slot):
        supervisor.send_nowait(completed(1))
        supervisor.send_nowait(slot_pipe_pb2.SupervisorFrame(told=codec.to_slot_proto(large)))
        supervisor.send_nowait(completed(2))
        assert [codec.to_slot(told(slot).told) for _ in range(3)] == [EpochCompleted(1), large, EpochCompleted(2)]


def test_an_end_beats_by_itself_and_says_when() -> None:
    begun_ns = time.monotonic_ns()
    with pipe(beat_s=0.01) as (_, slot):
        frames = [slot.receive() for _ in range(3)]
        sent = [frame.beat.sent_ns for frame in frames if frame is not None]
        assert begun_ns < sent[0] < sent[1] < sent[2] < time.monotonic_ns()


def test_a_full_pipe_is_told_or_waits_for_room() -> None:
    with lone_end() as (supervisor, reading):

        def fill() -> None:
            for epoch in range(100 * QUEUED_FRAMES_MAX):
                supervisor.send_nowait(completed(epoch))

        with pytest.raises(PipeFull):
            fill()
        waiting = threading.Thread(target=supervisor.send, args=(completed(-1),))
        waiting.start()
        reading.settimeout(0.1)  # it may have its room, and all may be read, before it is seen to have ended
        while waiting.is_alive():
            with suppress(TimeoutError):
                reading.recv(1 << 16)
        waiting.join()


def test_nobody_waits_at_a_pipe_that_the_other_end_has_closed() -> None:
    with lone_end() as (supervisor, theirs):
        with pytest.raises(PipeFull):
            for epoch in range(100 * QUEUED_FRAMES_MAX):
                supervisor.send_nowait(completed(epoch))
        waiting = threading.Thread(target=supervisor.send, args=(completed(-1),))
        waiting.start()
        theirs.close()
        waiting.join()
        assert supervisor.receive() is None
        assert supervisor.flush(WAIT_SECONDS)


def test_a_frame_that_is_cut_off_is_the_end() -> None:
    with lone_end() as (supervisor, theirs):
        theirs.sendall(b"\x00\x00\x00\x09abc")
        theirs.close()
        assert supervisor.receive() is None


def test_what_was_queued_is_written_when_flush_returns() -> None:
    with pipe() as (supervisor, slot):
        for epoch in range(1_000):
            supervisor.send(completed(epoch))
        read: list[int] = []
        reader = threading.Thread(
            target=lambda: read.extend(told(slot).told.epoch_completed.epoch for _ in range(1_000))
        )
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
