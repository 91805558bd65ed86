"""The worker's end of the control plane: dials the coordinator, keeps one stream, dials again when it drops.

Threads: one runs streams one after the other and passes received messages to the handlers; one schedules heartbeats and
nothing else; threads of gRPC pull the frames to send. Messages that were not acknowledged when a stream dropped are
sent again on the next stream. If the coordinator has ended the session, they are dropped: the new registration contains
the worker's slots as they are now.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import grpc

from headrace.core.errors import ExternalError
from headrace.core.retry import Backoff
from headrace.leadership.candidacy.candidacy import TermGuard
from headrace.leadership.opening import open_addresses
from headrace.rpc import codec
from headrace.rpc.credentials import Introduction, channel_to, diagnosis
from headrace.rpc.messages import FromWorker, Heartbeat, Refused, Register, Registered, ToWorker
from headrace.rpc.sessions.outbox import Outbox, OutboxFullError
from headrace.rpc.sessions.parts import in_parts
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2, control_pb2_grpc, messages_pb2
from headrace.tls.files import TlsFiles

_log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 64 << 20
BACKOFF = Backoff(first_s=0.1, max_s=2.0)
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
    ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
    # each stream has its own connection: gRPC's backoff for a shared one would add to the backoff of this client
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class CoordinatorAccess:
    """How a worker reaches its coordinator.

    address  of the control plane: HOST:PORT, several of them separated by commas, or the URL of an election
    token    the cluster's token
    tls      the worker's TLS files; None: not encrypted
    """

    address: str
    token: str = field(repr=False)
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class ClientHandlers:
    """The worker's callbacks, called in the client's stream thread.

    register    the worker as it is now. A slot that starts or ends must be visible here before `send` reports it: a
                session that starts anew drops the reports from before its registration
    on_message  a message of the coordinator; each one is passed once and in order
    on_refused  the coordinator refused this worker; the client has ended
    """

    register: Callable[[], Register]
    on_message: Callable[[ToWorker], None]
    on_refused: Callable[[Refused], None]


class ControlClient:
    """One worker's connection. `send` may be called from any thread."""

    def __init__(self, coordinator: CoordinatorAccess, times: ClusterTimes, handlers: ClientHandlers) -> None:
        self._coordinator = coordinator
        self._addresses = open_addresses(coordinator.address, os.environ)
        self._dialled = coordinator.address
        self._guard = TermGuard()
        self.trouble = ""
        """Why the last stream failed, for logs and errors."""
        self._times = times
        self._handlers = handlers
        self._changed = threading.Condition()
        self._outbox: Outbox[messages_pb2.FromWorker] = Outbox()
        self._session = secrets.token_hex(8)
        self._received = 0
        self._received_s = self._dialled_s = time.monotonic()
        self._stream = 0
        self._registered = False
        self._joined_once = False
        self._beat_due = False
        self._closing = False
        self._call: grpc.Call | None = None
        runs = [("stream", self._run_streams), ("beat", self._run_beats)]
        if self._addresses.may_move:
            runs.append(("leader", self._watch_leader))
        self._threads = [
            threading.Thread(target=run, name=f"headrace-control-{name}", daemon=True) for name, run in runs
        ]

    def start(self) -> None:
        """Starts the client's threads, which dial the coordinator."""
        for thread in self._threads:
            thread.start()

    def send(self, message: FromWorker) -> None:
        """Queues a message, never blocks.

        If the outbox is full, all queued messages are dropped and a new session begins: the coordinator then treats the
        worker as a new one, with the slots of its registration.
        """
        proto = codec.from_worker_proto(message)
        with self._changed:
            try:
                self._outbox.add(proto, proto.ByteSize())
            except OutboxFullError:
                self._start_anew()
            self._changed.notify_all()

    def silent_s(self) -> float:
        """Seconds since the last frame of a coordinator that has proven itself; before the first one, since this client
        was constructed."""
        return time.monotonic() - self._received_s

    def close(self, flush_s: float = 1.0) -> None:
        """Ends the client once all messages are acknowledged, or after `flush_s` seconds. Idempotent."""
        deadline_s = time.monotonic() + flush_s
        with self._changed:
            while self._registered and len(self._outbox) and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            self._closing = True
            self._drop_stream()
        self._addresses.close()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _start_anew(self) -> None:
        """Begins a new session and drops all messages of the old one."""
        with self._changed:
            self._session = secrets.token_hex(8)
            self._outbox = Outbox()
            self._drop_stream()

    def _drop_stream(self) -> None:
        """Ends the current stream. Called with the lock held."""
        self._stream += 1
        self._registered = False
        if self._call is not None:
            self._call.cancel()
        self._changed.notify_all()

    def _run_beats(self) -> None:
        with self._changed:
            while not self._closing:
                self._beat_due = True
                self._changed.notify_all()
                # A coordinator that is silent for the lease is lost, even if TCP still has the connection (a frozen
                # process, a cut network). A call that is not answered for as long is replaced too, because the
                # system's retries may take minutes.
                silent_s = min(self.silent_s(), time.monotonic() - self._dialled_s)
                if self._call is not None and silent_s > self._times.lease / 1_000:
                    self.trouble = "it is silent"
                    self._drop_stream()
                self._changed.wait_for(lambda: self._closing, self._times.heartbeat / 1_000)

    def _watch_leader(self) -> None:
        """Drops the stream to a coordinator that leads no more: it may be cut off from the election only."""
        while not self._closing:
            try:
                moved = self._addresses.moved()
            except ExternalError:
                moved = None  # the stream that there is stays
            with self._changed:
                if moved is not None and self._call is not None:
                    self.trouble = f"{moved} leads now"
                    self._drop_stream()
                self._changed.wait_for(lambda: self._closing, self._times.heartbeat / 1_000)

    def _run_streams(self) -> None:
        backoff_s = 0.0
        while not self._closing:
            try:
                if self._run_stream():
                    backoff_s = 0.0
            except Exception:  # the shell of a thread: if it died, the worker would never receive a message again
                _log.exception("a coordinator message failed; registering again")
                self._start_anew()
            backoff_s = BACKOFF.next_s(backoff_s)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, backoff_s)

    def _run_stream(self) -> bool:
        """Runs one stream from the registration to its end; returns whether the coordinator accepted the worker."""
        with self._changed:
            self._stream += 1
            stream, position = self._stream, self._outbox.last
            self._dialled_s = time.monotonic()
            first = control_pb2.WorkerFrame(acknowledged=self._received, session=self._session)
        # called without the lock: `register` acquires the worker's lock, and the worker may call `send` under that lock
        first.message.CopyFrom(codec.from_worker_proto(self._handlers.register()))
        introduction = Introduction(first, self._coordinator.token)
        try:
            address = self._dialled = self._addresses.next()
        except ExternalError as error:
            self.trouble = error.message
            return False
        with channel_to(address, self._coordinator.tls, CHANNEL_OPTIONS) as channel:
            call = control_pb2_grpc.ControlStub(channel).Attach(self._frames(stream, introduction))
            with self._changed:
                self._call = call
                # the stream was dropped before `_call` was set, so `_drop_stream` had no call to cancel
                if self._stream != stream or self._closing:
                    call.cancel()
            try:
                self._read(call, stream, position, introduction)
            except grpc.RpcError as error:
                # the stream was dropped or the coordinator cannot be reached: the next stream is the retry
                if self._stream == stream:
                    self._note_trouble(_details(error))
            finally:
                with self._changed:
                    self._call = None
                    if self._stream == stream:
                        self._drop_stream()
        return introduction.proven

    def _read(
        self,
        frames: Iterable[control_pb2.CoordinatorFrame],
        stream: int,
        position: int,
        introduction: Introduction,
    ) -> None:
        """Handles the frames of a stream until it ends. Raises grpc.RpcError if the connection fails."""
        for frame in frames:
            if introduction.proven:
                self._take(stream, frame)
            elif introduction.is_proven_by(frame):
                self._joined_once = True
                if self._is_earlier(frame):
                    return
                self._welcome(stream, position, frame)
                self._take(stream, frame)
            elif not self._is_expected(stream, introduction, frame):
                return
        self.trouble = f"it ended the stream{'' if introduction.proven else ' before the worker had registered'}"

    def _is_earlier(self, welcome: control_pb2.CoordinatorFrame) -> bool:
        """Whether another coordinator of the cluster has taken over from this one, which does not know it yet."""
        guard, term = self._guard, welcome.term
        if guard.admits(welcome.message.registered.cluster, term):
            return False
        self.trouble = f"it led the cluster in term {term}, and this is term {guard.term}"
        return True

    def _note_trouble(self, details: str) -> None:
        # a diagnosis connects, which lasts seconds if the network is cut: pointless once TLS has worked
        tls = self._coordinator.tls
        self.trouble = details if self._joined_once else diagnosis(self._dialled, tls, details)

    def _is_expected(self, stream: int, introduction: Introduction, frame: control_pb2.CoordinatorFrame) -> bool:
        """Handles a frame of a coordinator that has not proven itself; returns whether the stream goes on.

        Only a nonce and a refusal are accepted. A refusal cannot be proven: a worker with a wrong token could not check
        the proof (decision 20). So a stranger at the coordinator's address can end a worker, but not command it.
        """
        if introduction.terms is None:
            with self._changed:
                answered = introduction.answer(frame)
                self._changed.notify_all()
            if not answered:
                self.trouble = "it sends no challenge: it is of another version"
            return answered
        if frame.message.WhichOneof("kind") == "refused":
            self._take(stream, frame)
            return False
        self.trouble = "what answers there did not prove that it has the cluster's token"
        return False

    def _welcome(self, stream: int, position: int, frame: control_pb2.CoordinatorFrame) -> None:
        """Handles Registered, the answer to the registration: from now on the stream carries queued messages."""
        if frame.message.WhichOneof("kind") != "registered":
            return
        with self._changed:
            if self._stream != stream:
                return
            if frame.resumed:
                self._outbox.forget(frame.acknowledged)
                self._outbox.rewind()
            else:
                # messages from before the registration are obsolete: it contains the slots as they were then
                self._outbox = self._outbox.renewed(position)
                self._received = 0
            self._registered = True
            self.trouble = "it is silent"
            self._changed.notify_all()

    def _take(self, stream: int, frame: control_pb2.CoordinatorFrame) -> None:
        with self._changed:
            # a frame of a lower term is no word of the leader: on one stream the term stays, so this never happens
            # unless what answers there was replaced under the connection
            if self._stream != stream or frame.term < self._guard.term:
                return
            self._received_s = time.monotonic()
            self._outbox.forget(frame.acknowledged)
            self._changed.notify_all()
            # sent again on this stream, but received on an earlier one
            if frame.number and frame.number <= self._received:
                return
            self._received = max(self._received, frame.number)
        try:
            message = codec.to_worker(frame.message)
        except ExternalError:
            return  # a kind unknown to this version: cannot come from a coordinator of the same version
        if isinstance(message, Registered):
            # the coordinator's settings replace the worker's: it judges the worker by them
            self._times = replace(self._times, heartbeat=message.heartbeat_ms, lease=message.lease_ms)
        elif isinstance(message, Refused):
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._handlers.on_refused(message)
        elif not isinstance(message, Heartbeat):
            self._handlers.on_message(message)

    def _frames(self, stream: int, introduction: Introduction) -> Iterator[control_pb2.WorkerFrame]:
        """The frames that a stream sends. A thread of gRPC iterates over them."""
        with self._changed:
            self._changed.wait_for(lambda: introduction.terms is not None or self._stream != stream or self._closing)
            if introduction.terms is None:
                return
        yield introduction.first
        while (frame := self._next_frame(stream)) is not None:
            yield from in_parts(frame)

    def _next_frame(self, stream: int) -> control_pb2.WorkerFrame | None:
        """Waits for the next frame to send; None: the stream is over. Heartbeats overtake queued messages."""
        with self._changed:
            while self._stream == stream and not self._closing:
                if self._registered and self._beat_due:
                    self._beat_due = False
                    return control_pb2.WorkerFrame(
                        acknowledged=self._received, message=codec.from_worker_proto(Heartbeat())
                    )
                if self._registered and (taken := self._outbox.take()) is not None:
                    number, message = taken
                    return control_pb2.WorkerFrame(number=number, acknowledged=self._received, message=message)
                self._changed.wait()
        return None


def _details(error: grpc.RpcError) -> str:
    """gRPC's description of a failed stream."""
    return (error.details() or "") if isinstance(error, grpc.Call) else str(error)
