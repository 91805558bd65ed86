"""Which workers are connected. Pure: times are arguments, in seconds of one monotonic clock.

    no session ──Register──> attached <──────────────┐
                                │ stream drops       │ Register of the same session within `reconnect`:
                                v                    │ unacknowledged messages are sent again, no event
                             dropped ────────────────┘
                                │ `reconnect` passes, or (attached) `worker_lost` without a frame,
                                v or the same worker comes with another session
                             WorkerDisconnected, once

`rpc.server` carries frames and passes the events on; their receiver (`coordinator.fleet`) decides what follows for
jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ExternalError
from headrace.rpc import codec
from headrace.rpc.messages import FromWorker, Heartbeat, Refused, Register
from headrace.rpc.sessions.session import Session, Stream
from headrace.rpc.time_settings import ClusterTimes
from headrace.rpc.v1 import control_pb2


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


class Sessions:
    """The sessions of all connected workers, by worker id. Methods that change them return the event that follows, if
    any."""

    def __init__(self, times: ClusterTimes) -> None:
        self._times = times
        self._sessions: dict[str, Session] = {}

    def of(self, worker: str) -> Session | None:
        """The session of a connected worker."""
        return self._sessions.get(worker)

    def refusal(self, register: Register, name: str, now_s: float) -> Refused | None:
        """Why a worker that asks for session `name` may not join; None: it may."""
        session = self._sessions.get(register.worker)
        if session is None or session.name == name or session.stream is None:
            return None
        # another session while a stream of this worker id is attached: the same process may have begun a new session,
        # and a worker that no longer sends heartbeats may have been replaced; otherwise two workers have one id
        same = (session.register.host, session.register.pid) == (register.host, register.pid)
        alive = now_s - session.received_s < 2 * self._times.heartbeat / 1_000
        if same or not alive:
            return None
        reason = f"worker {register.worker!r} is here already (pid {session.register.pid} at {session.register.host})"
        return Refused(reason, "give each worker another --id")

    def resume(self, worker: str, name: str, now_s: float) -> Session | None:
        """The session of that name, if the worker may go on with it."""
        session = self._sessions.get(worker)
        # Without confirmation, Registered was lost with the stream: the worker still numbers its messages in the
        # session before, and this one cannot be resumed.
        if session is None or session.name != name or not session.confirmed:
            return None
        session.received_s = now_s
        return session

    def replace(self, worker: str, name: str) -> WorkerDisconnected | None:
        """Ends the worker's session before the one that it asks for begins.

        The receiver handles this event before `open`: what it sends to the worker on it belongs to slots of the session
        that has ended, and must not be queued in the next one.
        """
        session = self._sessions.get(worker)
        if session is None:
            return None
        return self.lose(session, "it was started anew" if session.name != name else "it did not receive Registered")

    def open(self, register: Register, name: str, now_s: float) -> tuple[Session, WorkerConnected]:
        """Begins a session of a worker that has none."""
        session = Session(name, register, now_s)
        self._sessions[register.worker] = session
        return session, WorkerConnected(register.worker, register)

    def receive(
        self, session: Session, frame: control_pb2.WorkerFrame, now_s: float
    ) -> WorkerMessage | WorkerDisconnected | None:
        """Handles a whole frame of a worker. One that is malformed, or that is not the next, ends the session."""
        try:
            if not session.receive(frame, now_s):
                return None
            message = codec.from_worker(frame.message)
        except ExternalError as error:
            return self.lose(session, error.message)
        return None if isinstance(message, Heartbeat | Register) else WorkerMessage(session.register.worker, message)

    def drop(self, session: Session, stream: Stream, now_s: float) -> WorkerDisconnected | None:
        """Notes the end of a stream. A worker that has said that it leaves is gone with it."""
        session.detach(stream, now_s)
        if session.leaving and session.stream is None:
            return self.lose(session, "it has left", clean=True)
        return None

    def lose(self, session: Session, reason: str, *, clean: bool = False) -> WorkerDisconnected | None:
        """Ends a session; None if it has ended before."""
        worker = session.register.worker
        if self._sessions.get(worker) is not session:
            return None
        del self._sessions[worker]
        session.end()
        return WorkerDisconnected(worker, reason, clean)

    def lose_silent(self, now_s: float, *, suspended_s: float) -> list[WorkerDisconnected]:
        """Ends the sessions of workers that are silent for too long, or whose stream was not restored in time.

        suspended_s: how long this process was suspended since the last call. It received nothing, so that time does not
        count as silence.
        """
        lost = []
        for session in list(self._sessions.values()):
            session.received_s += suspended_s
            session.dropped_s += suspended_s
            reason = self._silence(session, now_s)
            if reason is not None and (event := self.lose(session, reason)) is not None:
                lost.append(event)
        return lost

    def close(self) -> None:
        """Ends all sessions without events: their streams end after the queued messages."""
        for session in self._sessions.values():
            session.end()
        self._sessions.clear()

    def _silence(self, session: Session, now_s: float) -> str | None:
        """Why the worker of a session is lost now; None: it is not."""
        times = self._times
        if now_s - session.received_s > times.worker_lost / 1_000:
            return f"no heartbeat for {times.worker_lost / 1_000:g} s"
        if session.stream is None and now_s - session.dropped_s > times.reconnect / 1_000:
            return f"its connection dropped and did not come back in {times.reconnect / 1_000:g} s"
        return None
