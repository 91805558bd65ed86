"""The coordinator's end of the control plane: one stream per worker, which carries the frames of its session.

`rpc.sessions` decides which workers are connected; here is what needs gRPC, the event loop and the cluster's token.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from headrace import __version__
from headrace.core.errors import ExternalError, UserError
from headrace.core.network.entrance import Entrance
from headrace.core.network.hosts import host_port, is_loopback
from headrace.core.network.mutual_proof import NONCE_BYTES, WHERE_A_TOKEN_LIES, MutualProof, Role
from headrace.rpc import codec
from headrace.rpc.credentials import server_credentials, terms_of
from headrace.rpc.messages import Refused, Register, Registered, ToWorker
from headrace.rpc.sessions.outbox import OutboxFullError
from headrace.rpc.sessions.parts import WORKER_FRAME_BYTES_MAX, Assembly
from headrace.rpc.sessions.session import Session
from headrace.rpc.sessions.sessions import Sessions, WorkerEvent
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2, control_pb2_grpc
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


class _Stream:
    """A stream that waits until its session has a frame for it. Belongs to the event loop."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Ends the wait."""
        self._changed.set()

    async def frames(self, session: Session, heartbeat_s: float) -> AsyncIterator[control_pb2.CoordinatorFrame]:
        """The session's frames, until another stream replaces this one or the session is over."""
        loop = asyncio.get_running_loop()
        while session.stream is self:
            # before the session is read: an event after the read ends the wait
            self._changed.clear()
            if (frame := session.next_frame(loop.time(), heartbeat_s)) is not None:
                yield frame
            elif session.over:
                return
            else:
                await self._wait(session.until_beat_s(loop.time()))

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


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
        self._sessions = Sessions(times)
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
        session = self._sessions.of(worker)
        if session is None:
            return
        try:
            session.send(message)
        except OutboxFullError:
            # WorkerDisconnected is passed from the loop, not from here: the caller may be handling another event
            loop = asyncio.get_running_loop()
            loop.call_soon(self._lose, session, "it does not take its commands")

    def drop(self, worker: str, reason: str) -> None:
        """Ends the session of a worker whose process is known to have ended. Does nothing if there is none."""
        session = self._sessions.of(worker)
        if session is not None:
            self._lose(session, reason)

    async def stop(self) -> None:
        """Ends all streams after their queued messages, without events. Idempotent."""
        server, self._server = self._server, None
        if server is None or self._watch is None:
            return
        self._watch.cancel()
        self._sessions.close()
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
        stream = _Stream()
        session.attach(stream, first.acknowledged if resumed else 0, _now_s())
        reading = asyncio.create_task(self._read(session, stream, request_iterator))
        try:
            times = self._times
            welcome = session.frame(Registered(self._cluster, times.heartbeat, times.lease))
            welcome.resumed, welcome.proof = resumed, terms.proof(self._token, Role.CALLEE)
            welcome.term = self._term
            yield welcome
            async for frame in stream.frames(session, times.heartbeat / 1_000):
                frame.term = self._term
                yield frame
        finally:
            reading.cancel()
            self._pass(self._sessions.drop(session, stream, _now_s()))

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
        return self._sessions.refusal(register, first.session, _now_s())

    def _session(self, register: Register, name: str) -> tuple[Session, bool]:
        """The session of a registration, and whether it is resumed (otherwise it is new)."""
        if (known := self._sessions.resume(register.worker, name, _now_s())) is not None:
            return known, True
        self._pass(self._sessions.replace(register.worker, name))
        session, connected = self._sessions.open(register, name, _now_s())
        self._on_event(connected)
        return session, False

    async def _read(self, session: Session, stream: _Stream, requests: AsyncIterator[control_pb2.WorkerFrame]) -> None:
        """Handles the frames of a stream until it ends."""
        assembly = Assembly()
        # gRPC raises either of these for a connection that fails; the stream counts as dropped, whatever the reason
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            async for frame in requests:
                if session.stream is not stream or session.over:
                    return
                self._take(session, assembly, frame)
        self._pass(self._sessions.drop(session, stream, _now_s()))

    def _take(self, session: Session, assembly: Assembly, part: control_pb2.WorkerFrame) -> None:
        # the first parts of a large message are a sign of life too
        now_s = session.received_s = _now_s()
        try:
            frame = assembly.add(part)
        except ExternalError as error:
            self._lose(session, error.message)
            return
        if frame is not None:
            self._pass(self._sessions.receive(session, frame, now_s))

    def _lose(self, session: Session, reason: str) -> None:
        self._pass(self._sessions.lose(session, reason))

    def _pass(self, event: WorkerEvent | None) -> None:
        if event is not None:
            self._on_event(event)

    async def _watch_silence(self) -> None:
        """Has silent workers judged, several times within the shortest time that makes one a lost one."""
        every_s = min(self._times.heartbeat, self._times.reconnect) / 4 / 1_000
        last_s = _now_s()
        while True:
            await asyncio.sleep(every_s)
            now_s = _now_s()
            suspended_s = max(now_s - last_s - 4 * every_s, 0.0)
            last_s = now_s
            for lost in self._sessions.lose_silent(now_s, suspended_s=suspended_s):
                self._on_event(lost)


def _registration(first: control_pb2.WorkerFrame) -> Register | None:
    """The Register of a first frame; None if it contains another message."""
    try:
        message = codec.from_worker(first.message)
    except ExternalError:
        return None
    return message if isinstance(message, Register) else None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
