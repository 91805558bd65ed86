"""Strangers at the control plane: who does not know the token joins nothing, orders nothing and keeps nobody out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import Queue

import grpc
import pytest

from headrace.core.network.mutual_proof import NONCE_BYTES
from headrace.rpc import codec
from headrace.rpc import server as server_module
from headrace.rpc.client import CHANNEL_OPTIONS
from headrace.rpc.credentials import Introduction
from headrace.rpc.messages import (
    KillSlot,
    Refused,
    Registered,
    SlotDown,
    StopWorker,
)
from headrace.rpc.v1 import control_pb2, control_pb2_grpc
from support.control.server import TOKEN, ServerInThread
from support.control.worker import Worker, connected
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until


class Stranger:
    """A worker's end of streams by hand: what it sends is up to the test."""

    def __init__(self, server: ServerInThread, token: str = TOKEN) -> None:
        self._channel = grpc.insecure_channel(server.address, options=CHANNEL_OPTIONS)
        self._token = token
        self._ended = threading.Event()

    def __enter__(self) -> Stranger:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._channel.close()

    def attach(self, first: control_pb2.WorkerFrame | None) -> Iterator[control_pb2.CoordinatorFrame]:
        """A stream that begins with this frame and its proof (None: with nothing), and stays open."""
        challenge: Queue[control_pb2.CoordinatorFrame] = Queue()

        def frames() -> Iterator[control_pb2.WorkerFrame]:
            if first is not None:
                introduction = Introduction(first, self._token)
                introduction.answer(challenge.get(timeout=WAIT_SECONDS))
                yield introduction.first
            self._ended.wait(WAIT_SECONDS)

        call = control_pb2_grpc.ControlStub(self._channel).Attach(frames())
        challenge.put(next(call))
        return call


def registration(acknowledged: int = 0) -> control_pb2.WorkerFrame:
    return control_pb2.WorkerFrame(
        session="s", acknowledged=acknowledged, message=codec.from_worker_proto(Worker().register)
    )


def test_a_worker_that_did_not_hear_that_it_had_joined_is_not_taken_to_have_heard_anything() -> None:
    """It counts in the session before: what it heard in that one is not heard in this one."""
    with ServerInThread() as server, Stranger(server) as worker:
        lost = worker.attach(registration())
        wait_until(lambda: len(server.connected()) == 1, "it joins")
        lost.cancel()  # type: ignore[attr-defined]
        call = worker.attach(registration(acknowledged=57))
        assert next(call).resumed is False
        server.send("w1", KillSlot("a"))
        told = next(frame for frame in call if frame.number)
        assert codec.to_worker(told.message) == KillSlot("a")


def test_a_proof_that_was_recorded_is_worth_nothing_on_another_stream() -> None:
    with ServerInThread() as server, Stranger(server) as worker:
        first = registration()
        assert codec.to_worker(next(worker.attach(first)).message) == Registered("test-cluster", 100, 240_000)
        with grpc.insecure_channel(server.address) as channel:
            again = control_pb2_grpc.ControlStub(channel).Attach(iter([first]))
            assert next(again).nonce
            answer = next(again)
        assert TOKEN.encode() not in first.SerializeToString() + answer.SerializeToString()
        refused = codec.to_worker(answer.message)
        assert isinstance(refused, Refused) and "token" in refused.reason


def test_a_large_frame_of_a_stranger_is_not_taken_in() -> None:
    with ServerInThread() as server, grpc.insecure_channel(server.address) as channel:
        frame = control_pb2.WorkerFrame(session="x" * (8 << 20))
        with pytest.raises(grpc.RpcError) as caught:
            list(control_pb2_grpc.ControlStub(channel).Attach(iter([frame])))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_streams_that_do_not_register_keep_no_worker_out_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REGISTER_SECONDS_MAX", 600.0)
    with ServerInThread() as server, ExitStack() as stack:
        idle = [stack.enter_context(Stranger(server)).attach(None) for _ in range(server_module.UNREGISTERED_MAX + 20)]
        with connected(server, Worker()):
            assert len(server.connected()) == 1
        # those that had to make room have ended
        assert [list(call) for call in idle[:20]] == [[]] * 20


def test_a_stream_that_does_not_register_in_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "REGISTER_SECONDS_MAX", 0.1)
    with ServerInThread() as server, Stranger(server) as stranger:
        assert list(stranger.attach(None)) == []


def test_five_hundred_idle_connections_keep_no_worker_out() -> None:
    with ServerInThread() as server, ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_SECONDS))
        with connected(server, Worker()):
            assert len(server.connected()) == 1


def test_a_connection_that_says_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    short = tuple((name, 100 if name.endswith("_ms") else value) for name, value in server_module.STREAM_OPTIONS)
    monkeypatch.setattr(server_module, "STREAM_OPTIONS", short)
    with (
        ServerInThread() as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as idle,
        suppress(ConnectionResetError),
    ):
        while idle.recv(1_000):
            pass


class FalseCoordinator(control_pb2_grpc.ControlServicer):
    """Listens at the coordinator's port without the cluster's token: accepts any worker and orders it about."""

    def __init__(self) -> None:
        self.calls = 0
        self.frames: list[control_pb2.WorkerFrame] = []

    def Attach(  # noqa: N802 - the service's name for it
        self, request_iterator: Iterator[control_pb2.WorkerFrame], context: grpc.ServicerContext
    ) -> Iterator[control_pb2.CoordinatorFrame]:
        self.calls += 1
        yield control_pb2.CoordinatorFrame(nonce=bytes(NONCE_BYTES))
        first = next(request_iterator)
        self.frames.append(first)
        welcome = codec.to_worker_proto(Registered("test-cluster", 100, 240_000))
        # the worker's own proof, sent back
        yield control_pb2.CoordinatorFrame(message=welcome, proof=first.proof)
        yield control_pb2.CoordinatorFrame(number=1, message=codec.to_worker_proto(StopWorker()))
        self.frames += request_iterator


def test_a_worker_obeys_no_coordinator_that_does_not_prove_itself() -> None:
    false = FalseCoordinator()
    server = grpc.server(ThreadPoolExecutor(4))
    control_pb2_grpc.add_ControlServicer_to_server(false, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    worker = Worker()
    client = worker.connect(f"127.0.0.1:{port}")
    begun_s = time.monotonic()
    try:
        client.send(SlotDown("a", "a word for the coordinator", clean=True))
        wait_until(lambda: false.calls > 2, "it dials again")
        assert client.silent_s() >= time.monotonic() - begun_s, "it counts as no coordinator"
        assert "did not prove" in client.trouble
    finally:
        client.close(0)
        server.stop(None).wait()
    assert worker.told == [] and worker.refused == []
    assert {frame.message.WhichOneof("kind") for frame in false.frames} == {"register"}
    assert all(TOKEN.encode() not in frame.SerializeToString() for frame in false.frames)
