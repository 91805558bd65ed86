"""The coordinator's end of the control plane: one stream per worker, sessions that outlive a dropped stream.

    no session ──Register──> attached <──────────────┐
                                │ stream drops       │ Register of the same session within `reconnect`:
                                v                    │ unacknowledged messages are sent again, no event
                             dropped ────────────────┘
                                │ `reconnect` passes, or (attached) `worker_lost` without a frame,
                                v or the same worker comes with another session
                             WorkerDisconnected, once

The server decides which workers are connected. The receiver of its events (`coordinator.fleet`) decides what follows
for jobs.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from headrace import __version__
from headrace.core.errors import ExternalError, UserError
from headrace.core.network.cluster_token import WHERE_A_TOKEN_LIES
from headrace.core.network.entrance import Entrance
from headrace.core.network.hosts import host_port, is_loopback
from headrace.core.network.mutual_proof import NONCE_BYTES, MutualProof, Role
from headrace.rpc import codec
from headrace.rpc.credentials import server_credentials
from headrace.rpc.introduction import terms_of
from headrace.rpc.messages import FromWorker, Heartbeat, Refused, Register, Registered, ToWorker
from headrace.rpc.outbox import Outbox, OutboxFullError
from headrace.rpc.parts import WORKER_FRAME_BYTES_MAX, Assembly
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2, control_pb2_grpc, messages_pb2
from headrace.tls.files import TlsFiles

FRAME_BYTES_MAX = 64 << 20
REGISTER_SECONDS_MAX = 5.0
"""A stream that has not registered after this time is closed."""
UNREGISTERED_MAX = 64
"""At most this many streams may be unregistered at once. One more closes the oldest; a real worker dials again."""
STREAM_OPTIONS = (
    ("grpc.max_send_message_length", FRAME_BYTES_MAX),
    ("grpc.max_receive_message_length", WORKER_FRAME_BYTES_MAX),
    # a worker keeps one stream on a connection of its own
    ("grpc.max_concurrent_streams", 4),
    # a connection without a handshake, or without a stream, is closed
    ("grpc.server_handshake_timeout_ms", round(REGISTER_SECONDS_MAX * 1_000)),
    ("grpc.max_connection_idle_ms", round(REGISTER_SECONDS_MAX * 1_000)),
    # SO_REUSEPORT would let a second coordinator listen at the same port and receive half of the workers
    ("grpc.so_reuseport", 0),
)
STOP_GRACE_SECONDS = 2.0
"""How long `stop` waits until queued messages have been sent."""
_STREAMS = itertools.count(1)
_UNACKNOWLEDGED_MAX = 1_000
"""After this many messages of a worker an acknowledgement is sent before the next heartbeat is due."""


@dataclass(frozen=True, slots=True)
class WorkerConnected:
    """A worker has joined. Its slots are those of `register`; its earlier messages are obsolete.

    The first event of a worker. A stream that dropped and was restored in time is no event.
    """

    worker: str
    register: Register


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """A message of a connected worker. Each one is passed once and in order; registrations and heartbeats are not."""

    worker: str
    message: FromWorker


@dataclass(frozen=True, slots=True)
class WorkerDisconnected:
    """The worker is lost, or has left (`clean`). Follows each `WorkerConnected` once, as the worker's last event."""

    worker: str
    reason: str
    clean: bool


WorkerEvent = WorkerConnected | WorkerMessage | WorkerDisconnected


class _Session:
    """One session of a worker: messages sent and received, over all streams of the session.

    Used in the event loop only; times are the loop's, in seconds.

    stream      number of the current stream; 0: none
    received_s  time of the last frame of the worker
    dropped_s   time when the last stream ended
    leaving     the worker has sent WorkerLeaving
    confirmed   the worker has sent a frame in this session after Registered, so it counts messages in this session
    over        nothing more is sent but what is queued
    """

    def __init__(self, name: str, register: Register, now_s: float) -> None:
        self.name = name
        self.register = register
        self.stream = 0
        self.received_s = now_s
        self.dropped_s = now_s
        self.leaving = False
        self.confirmed = False
        self.over = False
        self._outbox: Outbox[messages_pb2.ToWorker] = Outbox()
        self._received = 0
        self._acknowledged = 0
        self._must_acknowledge = False
        self._wake = asyncio.Event()

    def attach(self, acknowledged: int) -> int:
        """Begins a stream; a current one ends. `acknowledged`: number of the last message that the worker has received.

        Returns the stream's number.
        """
        self._outbox.forget(acknowledged)
        self._outbox.rewind()
        self.stream = next(_STREAMS)
        self._wake.set()
        self._wake = asyncio.Event()
        return self.stream

    def detach(self, stream: int, now_s: float) -> None:
        """Notes the end of a stream. Does nothing if another stream has replaced it."""
        if self.stream == stream:
            self.stream = 0
            self.dropped_s = now_s
            self._wake.set()

    def end(self) -> None:
        """Ends the session: its stream ends after the queued messages."""
        self.over = True
        self._wake.set()

    def send(self, message: ToWorker) -> None:
        """Queues a message. Raises OutboxFullError."""
        proto = codec.to_worker_proto(message)
        self._outbox.add(proto, proto.ByteSize())
        self._wake.set()

    def receive(self, frame: control_pb2.WorkerFrame, now_s: float) -> bool:
        """Notes a frame; returns whether its message is new and must be handled.

        Raises ExternalError if a message in between is missing.
        """
        self.received_s = now_s
        self.confirmed = True
        self._outbox.forget(frame.acknowledged)
        if frame.number <= self._received:
            return False
        if frame.number != self._received + 1:
            raise ExternalError(f"message {self._received + 1} of its session is missing")
        self._received = frame.number
        self.leaving = self.leaving or frame.message.WhichOneof("kind") == "worker_leaving"
        # Heartbeats carry acknowledgements. A worker that waits to leave, or that keeps many unacknowledged messages,
        # needs one sooner.
        self._must_acknowledge = self.leaving or frame.number - self._acknowledged >= _UNACKNOWLEDGED_MAX
        if self._must_acknowledge:
            self._wake.set()
        return True

    def frame(self, message: ToWorker) -> control_pb2.CoordinatorFrame:
        """A frame without a number: it is not acknowledged and never sent again."""
        return control_pb2.CoordinatorFrame(acknowledged=self._received, message=codec.to_worker_proto(message))

    async def frames(self, stream: int, heartbeat_s: float) -> AsyncIterator[control_pb2.CoordinatorFrame]:
        """The frames of that stream, heartbeats included, until another stream replaces it or the session is over."""
        loop = asyncio.get_running_loop()
        beat_s = loop.time()
        while self.stream == stream:
            self._wake.clear()
            if self._must_acknowledge or loop.time() >= beat_s:
                self._must_acknowledge, self._acknowledged = False, self._received
                beat_s = loop.time() + heartbeat_s
                yield self.frame(Heartbeat())
            elif (taken := self._outbox.take()) is not None:
                number, message = taken
                yield control_pb2.CoordinatorFrame(number=number, acknowledged=self._received, message=message)
            elif self.over:
                return
            else:
                await _wait(self._wake, beat_s - loop.time())


class ControlServer(control_pb2_grpc.ControlServicer):
    """Serves workers in the running asyncio loop. `on_event` is called in that loop and must not block."""

    def __init__(
        self, cluster: str, times: ClusterTimes, on_event: Callable[[WorkerEvent], None], *, term: int = 0
    ) -> None:
        """term: of this coordinator; each later one of the cluster has a higher one."""
        self._cluster = cluster
        self._term = term
        self._times = times
        self._on_event = on_event
        self._token = ""
        self._sessions: dict[str, _Session] = {}
        self._unregistered: Entrance[asyncio.Timeout] = Entrance(UNREGISTERED_MAX)
        self._server: grpc.aio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, token: str, tls: TlsFiles | None = None) -> int:
        """Listens at an address (port 0: a free one); returns the port.

        Raises ExternalError if the address is in use, UserError if it is not loopback and there is no token.
        """
        if not token and not is_loopback(host):
            raise UserError(f"the control plane at {host} needs a token: other hosts can reach it")
        self._token = token
        server = grpc.aio.server(options=STREAM_OPTIONS)
        control_pb2_grpc.add_ControlServicer_to_server(self, server)
        try:
            address = host_port(host, port)
            if tls is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, server_credentials(tls))
        except RuntimeError as error:
            remedy = "stop what listens there, or choose another port"
            raise ExternalError(f"the control plane cannot listen at {host}:{port}", remedy=remedy) from error
        await server.start()
        self._server = server
        self._watch = asyncio.create_task(self._watch_silence())
        return bound

    def send(self, worker: str, message: ToWorker) -> None:
        """Queues a message to a connected worker, never blocks. Does nothing if the worker is not connected."""
        session = self._sessions.get(worker)
        if session is None:
            return
        try:
            session.send(message)
        except OutboxFullError:
            # WorkerDisconnected is raised from the loop, not from here: the caller may be handling another event
            loop = asyncio.get_running_loop()
            loop.call_soon(self._lose, session, "it does not take its commands")

    def drop(self, worker: str, reason: str) -> None:
        """Ends the session of a worker whose process is known to have ended. Does nothing if there is none."""
        session = self._sessions.get(worker)
        if session is not None:
            self._lose(session, reason)

    async def stop(self) -> None:
        """Ends all streams after their queued messages, without events. Idempotent."""
        server, self._server = self._server, None
        if server is None or self._watch is None:
            return
        self._watch.cancel()
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()
        await server.stop(STOP_GRACE_SECONDS)

    async def Attach(  # noqa: N802 - the service's name for it
        self, request_iterator: AsyncIterator[control_pb2.WorkerFrame], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[control_pb2.CoordinatorFrame]:
        """One stream of a worker, from its registration to its end."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        yield control_pb2.CoordinatorFrame(nonce=nonce)
        first = await self._first(request_iterator)
        register = None if first is None else _registration(first)
        if first is None or register is None or self._server is None:
            return
        terms = terms_of(first, nonce)
        if (refused := self._refusal(register, first, terms)) is not None:
            # with its term: a worker ends on the leader's word, and on none of a coordinator that led before
            yield control_pb2.CoordinatorFrame(message=codec.to_worker_proto(refused), term=self._term)
            return
        session, resumed = self._session(register, first.session)
        stream = session.attach(first.acknowledged if resumed else 0)
        reading = asyncio.create_task(self._read(session, stream, request_iterator))
        try:
            times = self._times
            welcome = session.frame(Registered(self._cluster, times.heartbeat, times.lease))
            welcome.resumed, welcome.proof = resumed, terms.proof(self._token, Role.CALLEE)
            welcome.term = self._term
            yield welcome
            async for frame in session.frames(stream, times.heartbeat / 1_000):
                frame.term = self._term
                yield frame
        finally:
            reading.cancel()
            self._dropped(session, stream)

    async def _first(self, requests: AsyncIterator[control_pb2.WorkerFrame]) -> control_pb2.WorkerFrame | None:
        """The first frame of a stream; None: the stream ended, took too long, or was closed for a newer one."""
        with suppress(TimeoutError, StopAsyncIteration, grpc.RpcError):
            async with asyncio.timeout(REGISTER_SECONDS_MAX) as limit:
                leaves = self._unregistered.enter(limit)
                if leaves is not None and not leaves.expired():
                    leaves.reschedule(0)
                try:
                    return await anext(requests)
                finally:
                    self._unregistered.leave(limit)
        return None

    def _refusal(self, register: Register, first: control_pb2.WorkerFrame, terms: MutualProof) -> Refused | None:
        """The reason to refuse a worker; None: it may join."""
        # versions are compared before the proof, because other versions may compute the proof in another way
        if register.version != __version__:
            reason = f"it runs headrace {register.version}, this cluster {__version__}"
            return Refused(reason, "install the same version everywhere")
        if not terms.accepts(self._token, Role.CALLER, first.proof):
            remedy = f"give the worker the cluster's token: --token-file FILE or HEADRACE_TOKEN. {WHERE_A_TOKEN_LIES}"
            return Refused("its token is not this cluster's", remedy)
        known = self._sessions.get(register.worker)
        if known is None or known.name == first.session or not known.stream:
            return None
        # another session while a stream of this worker id is attached: the same process may have begun a new session,
        # and a worker that no longer sends heartbeats may have been replaced; otherwise two workers have one id
        same = (known.register.host, known.register.pid) == (register.host, register.pid)
        alive = asyncio.get_running_loop().time() - known.received_s < 2 * self._times.heartbeat / 1_000
        if same or not alive:
            return None
        reason = f"worker {register.worker!r} is here already (pid {known.register.pid} at {known.register.host})"
        return Refused(reason, "give each worker another --id")

    def _session(self, register: Register, name: str) -> tuple[_Session, bool]:
        """The session of a registration, and whether it is resumed (otherwise it is new)."""
        known = self._sessions.get(register.worker)
        now_s = asyncio.get_running_loop().time()
        if known is not None and known.name == name and known.confirmed:
            known.received_s = now_s
            return known, True
        if known is not None:
            # The same name without confirmation: Registered was lost with the stream, so the worker still numbers its
            # messages in the session before, and this one cannot be resumed.
            self._lose(known, "it was started anew" if known.name != name else "it did not receive Registered")
        session = _Session(name, register, now_s)
        self._sessions[register.worker] = session
        self._on_event(WorkerConnected(register.worker, register))
        return session, False

    async def _read(self, session: _Session, stream: int, requests: AsyncIterator[control_pb2.WorkerFrame]) -> None:
        """Handles the frames of a stream until it ends."""
        loop = asyncio.get_running_loop()
        # gRPC raises either of these for a connection that fails; the stream counts as dropped, whatever the reason
        assembly = Assembly()
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            async for frame in requests:
                if session.stream != stream or session.over:
                    return
                self._take(session, assembly, frame, loop.time())
        self._dropped(session, stream)

    def _take(self, session: _Session, assembly: Assembly, part: control_pb2.WorkerFrame, now_s: float) -> None:
        session.received_s = now_s
        try:
            frame = assembly.add(part)
            if frame is None or not session.receive(frame, now_s):
                return
            message = codec.from_worker(frame.message)
        except ExternalError as error:
            self._lose(session, error.message)
            return
        if not isinstance(message, Heartbeat | Register):
            self._on_event(WorkerMessage(session.register.worker, message))

    def _dropped(self, session: _Session, stream: int) -> None:
        session.detach(stream, asyncio.get_running_loop().time())
        if session.leaving and not session.stream:
            self._lose(session, "it has left", clean=True)

    def _lose(self, session: _Session, reason: str, *, clean: bool = False) -> None:
        """Ends a session and reports WorkerDisconnected, once."""
        worker = session.register.worker
        if self._sessions.get(worker) is session:
            del self._sessions[worker]
            session.end()
            self._on_event(WorkerDisconnected(worker, reason, clean))

    async def _watch_silence(self) -> None:
        """Detects workers that are silent for too long, or whose stream was not restored in time."""
        loop = asyncio.get_running_loop()
        every_s = min(self._times.heartbeat, self._times.reconnect) / 4 / 1_000
        last_s = loop.time()
        while True:
            await asyncio.sleep(every_s)
            now_s = loop.time()
            # this process receives nothing while it is stopped: that time does not count as silence of workers
            stood_still_s = max(now_s - last_s - 4 * every_s, 0.0)
            last_s = now_s
            for session in list(self._sessions.values()):
                session.received_s += stood_still_s
                session.dropped_s += stood_still_s
                self._judge(session, now_s)

    def _judge(self, session: _Session, now_s: float) -> None:
        times = self._times
        if now_s - session.received_s > times.worker_lost / 1_000:
            self._lose(session, f"no heartbeat for {times.worker_lost / 1_000:g} s")
        elif not session.stream and now_s - session.dropped_s > times.reconnect / 1_000:
            self._lose(session, f"its connection dropped and did not come back in {times.reconnect / 1_000:g} s")


def _registration(first: control_pb2.WorkerFrame) -> Register | None:
    """The Register of a first frame; None if it contains another message."""
    try:
        message = codec.from_worker(first.message)
    except ExternalError:
        return None
    return message if isinstance(message, Register) else None


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        pass
