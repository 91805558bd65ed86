"""One session of a worker, as the coordinator keeps it: messages sent and received, over all streams of the session.

Pure: times are arguments, in seconds of one monotonic clock.
"""

from __future__ import annotations

from typing import Protocol

from headrace.core.errors import ExternalError
from headrace.rpc import codec
from headrace.rpc.messages import Heartbeat, Register, ToWorker
from headrace.rpc.sessions.outbox import Outbox
from headrace.rpc.v1 import control_pb2, messages_pb2

_UNACKNOWLEDGED_MAX = 1_000
"""After this many messages of a worker an acknowledgement is sent before the next heartbeat is due."""


class Stream(Protocol):
    """A stream of the session, which sends its frames."""

    def wake(self) -> None:
        """Called when there may be a frame to send, or when the stream has to end."""
        ...


class Session:
    """The state of one session.

    stream      the current stream; None: it dropped
    received_s  time of the last frame of the worker
    dropped_s   time when the last stream ended
    leaving     the worker has sent WorkerLeaving
    confirmed   the worker has sent a frame in this session after Registered, so it counts messages in this session
    over        nothing more is sent but what is queued
    """

    def __init__(self, name: str, register: Register, now_s: float) -> None:
        self.name = name
        self.register = register
        self.stream: Stream | None = None
        self.received_s = now_s
        self.dropped_s = now_s
        self.leaving = False
        self.confirmed = False
        self.over = False
        self._outbox: Outbox[messages_pb2.ToWorker] = Outbox()
        self._received = 0
        self._acknowledged = 0
        self._must_acknowledge = False
        self._beat_due_s = now_s

    def attach(self, stream: Stream, acknowledged: int, now_s: float) -> None:
        """Begins a stream; a current one ends. `acknowledged`: number of the last message that the worker has received.

        The first frame of a stream is a heartbeat.
        """
        self._outbox.forget(acknowledged)
        self._outbox.rewind()
        self._wake()
        self.stream = stream
        self._beat_due_s = now_s

    def detach(self, stream: Stream, now_s: float) -> None:
        """Notes the end of a stream. Does nothing if another stream has replaced it."""
        if self.stream is stream:
            self.stream = None
            self.dropped_s = now_s
            stream.wake()

    def end(self) -> None:
        """Ends the session: its stream ends after the queued messages."""
        self.over = True
        self._wake()

    def send(self, message: ToWorker) -> None:
        """Queues a message. Raises OutboxFullError."""
        proto = codec.to_worker_proto(message)
        self._outbox.add(proto, proto.ByteSize())
        self._wake()

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
            self._wake()
        return True

    def frame(self, message: ToWorker) -> control_pb2.CoordinatorFrame:
        """A frame without a number: it is not acknowledged and never sent again."""
        return control_pb2.CoordinatorFrame(acknowledged=self._received, message=codec.to_worker_proto(message))

    def next_frame(self, now_s: float, heartbeat_s: float) -> control_pb2.CoordinatorFrame | None:
        """The frame to send now on the current stream, heartbeats included; None: nothing is due."""
        if self._must_acknowledge or now_s >= self._beat_due_s:
            self._must_acknowledge, self._acknowledged = False, self._received
            self._beat_due_s = now_s + heartbeat_s
            return self.frame(Heartbeat())
        if (taken := self._outbox.take()) is None:
            return None
        number, message = taken
        return control_pb2.CoordinatorFrame(number=number, acknowledged=self._received, message=message)

    def until_beat_s(self, now_s: float) -> float:
        """Seconds until the next heartbeat is due."""
        return max(self._beat_due_s - now_s, 0.0)

    def _wake(self) -> None:
        if self.stream is not None:
            self.stream.wake()
