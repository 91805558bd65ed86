"""The worker's end of the control plane: dials the coordinator, keeps one stream, comes back when it drops.

Threads: one runs streams one after the other and hands on what they bring; one beats and does nothing else; gRPC's own
pull what is to be sent. What was said and not heard when a stream drops is said again on the next one, unless the
coordinator has given the session up: then the worker's slots are as the new registration says.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import grpc

from headrace.core.errors import ExternalError
from headrace.core.retry import Backoff
from headrace.rpc import codec
from headrace.rpc.credentials import channel_to, diagnosis
from headrace.rpc.introduction import Introduction
from headrace.rpc.messages import FromWorker, Heartbeat, Refused, Register, Registered, ToWorker
from headrace.rpc.outbox import Outbox, OutboxFullError
from headrace.rpc.parts import in_parts
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2, control_pb2_grpc, messages_pb2
from headrace.tls.files import TlsFiles

_log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 64 << 20
BACKOFF = Backoff(first_s=0.1, max_s=2.0)
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
    ("grpc.max_receive_message_length", FRAME_BYTES_MAX),
    # every stream gets a connection of its own: gRPC's backoff of a shared one would come on top of ours
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


@dataclass(frozen=True, slots=True)
class CoordinatorAccess:
    """Which coordinator a worker dials: HOST:PORT of its control plane, the cluster's token, and the worker's files for
    TLS (None: there is none)."""

    address: str
    token: str = field(repr=False)
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class ClientHandlers:
    """What a client asks of its worker. All but `register` are called in the client's stream thread.

    register   the worker as it is now. A slot's coming and going is to be seen here before `send` is told of it
    on_told    a message of the coordinator, each once and in order
    on_refused the coordinator does not want this worker; the client has ended
    """

    register: Callable[[], Register]
    on_told: Callable[[ToWorker], None]
    on_refused: Callable[[Refused], None]


class ControlClient:
    """One worker's connection. `send` may be called from any thread."""

    def __init__(self, coordinator: CoordinatorAccess, times: ClusterTimes, handlers: ClientHandlers) -> None:
        self._coordinator = coordinator
        self.trouble = ""
        """Why the last stream did not come about."""
        self._times = times
        self._handlers = handlers
        self._changed = threading.Condition()
        self._outbox: Outbox[messages_pb2.FromWorker] = Outbox()
        self._session = secrets.token_hex(8)
        self._heard = 0
        self._heard_s = self._dialled_s = time.monotonic()
        self._stream = 0
        self._registered = False
        self._joined_once = False
        self._beat_due = False
        self._closing = False
        self._call: grpc.Call | None = None
        self._threads = [
            threading.Thread(target=run, name=f"headrace-control-{name}", daemon=True)
            for name, run in (("stream", self._run_streams), ("beat", self._run_beats))
        ]

    def start(self) -> None:
        """Starts dialling."""
        for thread in self._threads:
            thread.start()

    def send(self, message: FromWorker) -> None:
        """Queues a message, never blocks. When no more can be kept, all that was queued is given up: see below.

        The coordinator then sees the worker start anew, with the slots that it has.
        """
        proto = codec.from_worker_proto(message)
        with self._changed:
            try:
                self._outbox.add(proto, proto.ByteSize())
            except OutboxFullError:
                self._start_anew()
            self._changed.notify_all()

    def silent_s(self) -> float:
        """How long ago the coordinator was last heard (or this client made, where it never was). Only one that has
        proven itself counts."""
        return time.monotonic() - self._heard_s

    def close(self, flush_s: float = 1.0) -> None:
        """Ends the stream, when what was sent is heard or after `flush_s`. Idempotent."""
        deadline_s = time.monotonic() + flush_s
        with self._changed:
            while self._registered and len(self._outbox) and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
            self._closing = True
            self._drop_stream()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _start_anew(self) -> None:
        """Gives the session up, and all that was to be said in it."""
        with self._changed:
            self._session = secrets.token_hex(8)
            self._outbox = Outbox()
            self._drop_stream()

    def _drop_stream(self) -> None:
        """Ends the stream that is there; with the lock held."""
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
                # a coordinator that is silent for the lease is gone, whatever the connection says; and a call that is
                # not answered for as long is made anew, for nobody knows when the system would try again
                silent_s = min(self.silent_s(), time.monotonic() - self._dialled_s)
                if self._call is not None and silent_s > self._times.lease / 1_000:
                    self.trouble = "it is silent"
                    self._drop_stream()
                self._changed.wait_for(lambda: self._closing, self._times.heartbeat / 1_000)

    def _run_streams(self) -> None:
        backoff_s = 0.0
        while not self._closing:
            try:
                if self._run_stream():
                    backoff_s = 0.0
            except Exception:  # the shell of a thread: without it the worker would be deaf for good
                _log.exception("a word of the coordinator could not be dealt with: joining anew")
                self._start_anew()
            backoff_s = BACKOFF.next_s(backoff_s)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, backoff_s)

    def _run_stream(self) -> bool:
        """One stream from registration to its end. Gives whether the coordinator let the worker in."""
        with self._changed:
            self._stream += 1
            stream, position = self._stream, self._outbox.last
            self._dialled_s = time.monotonic()
            first = control_pb2.WorkerFrame(heard=self._heard, session=self._session)
        # asked without the lock: the worker may be about to send under a lock of its own
        first.message.CopyFrom(codec.from_worker_proto(self._handlers.register()))
        introduction = Introduction(first, self._coordinator.token)
        access = self._coordinator
        with channel_to(access.address, access.tls, CHANNEL_OPTIONS) as channel:
            call = control_pb2_grpc.ControlStub(channel).Attach(self._frames(stream, introduction))
            with self._changed:
                self._call = call
                if self._stream != stream or self._closing:
                    call.cancel()
            try:
                self._read(call, stream, position, introduction)
            except grpc.RpcError as error:
                # dropped or not to be reached: the next stream will tell
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
        """Takes what a stream brings. Raises grpc.RpcError where it breaks off."""
        for frame in frames:
            if introduction.proven:
                self._take(stream, frame)
            elif introduction.is_proven_by(frame):
                self._joined_once = True
                self._welcome(stream, position, frame)
                self._take(stream, frame)
            elif not self._is_expected(stream, introduction, frame):
                return
        self.trouble = f"it ended the stream{'' if introduction.proven else ' before the worker had registered'}"

    def _note_trouble(self, details: str) -> None:
        # it takes seconds where the network is cut: not for a coordinator that TLS has worked with
        access = self._coordinator
        self.trouble = details if self._joined_once else diagnosis(access.address, access.tls, details)

    def _is_expected(self, stream: int, introduction: Introduction, frame: control_pb2.CoordinatorFrame) -> bool:
        """A frame of a coordinator that has not proven itself: only its nonce and a refusal count."""
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
        """The answer to the registration: from here on the stream carries what was said."""
        if frame.message.WhichOneof("kind") != "registered":
            return
        with self._changed:
            if self._stream != stream:
                return
            if frame.resumed:
                self._outbox.forget(frame.heard)
                self._outbox.rewind()
            else:
                # what was said before the registration is in it, or of a time that nobody asks for any more
                self._outbox = self._outbox.renewed(position)
                self._heard = 0
            self._registered = True
            self._changed.notify_all()

    def _take(self, stream: int, frame: control_pb2.CoordinatorFrame) -> None:
        with self._changed:
            if self._stream != stream:
                return
            self._heard_s = time.monotonic()
            self._outbox.forget(frame.heard)
            self._changed.notify_all()
            if frame.number and frame.number <= self._heard:
                return
            self._heard = max(self._heard, frame.number)
        try:
            message = codec.to_worker(frame.message)
        except ExternalError:
            return  # of a kind that this version does not know: versions are equal, so there is none
        if isinstance(message, Registered):
            # the coordinator's times hold: it judges by them
            self._times = replace(self._times, heartbeat=message.heartbeat_ms, lease=message.lease_ms)
        elif isinstance(message, Refused):
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._handlers.on_refused(message)
        elif not isinstance(message, Heartbeat):
            self._handlers.on_told(message)

    def _frames(self, stream: int, introduction: Introduction) -> Iterator[control_pb2.WorkerFrame]:
        """What a stream sends; pulled by a thread of gRPC's."""
        with self._changed:
            self._changed.wait_for(lambda: introduction.terms is not None or self._stream != stream or self._closing)
            if introduction.terms is None:
                return
        yield introduction.first
        while (frame := self._next_frame(stream)) is not None:
            yield from in_parts(frame)

    def _next_frame(self, stream: int) -> control_pb2.WorkerFrame | None:
        """Waits for the next frame; None: the stream is over. Beats overtake."""
        with self._changed:
            while self._stream == stream and not self._closing:
                if self._registered and self._beat_due:
                    self._beat_due = False
                    return control_pb2.WorkerFrame(heard=self._heard, message=codec.from_worker_proto(Heartbeat()))
                if self._registered and (taken := self._outbox.take()) is not None:
                    number, message = taken
                    return control_pb2.WorkerFrame(number=number, heard=self._heard, message=message)
                self._changed.wait()
        return None


def _details(error: grpc.RpcError) -> str:
    """What gRPC says of a stream that broke off."""
    return (error.details() or "") if isinstance(error, grpc.Call) else str(error)
