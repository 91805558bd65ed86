"""A worker as the coordinator knows it: what was said and heard, over all streams of one session."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

from headrace.core.errors import ExternalError
from headrace.rpc import codec
from headrace.rpc.messages import Heartbeat, Register, ToWorker
from headrace.rpc.outbox import Outbox
from headrace.rpc.v1 import control_pb2

_STREAMS = itertools.count(1)
_UNTOLD_MAX = 1_000


class Session:
    """The server's half of a session. Belongs to the loop; times are the loop's, in seconds.

    stream     number of the stream that carries it now; 0: none
    heard_s    when the worker was last heard
    dropped_s  when the last stream ended
    leaving    the worker has said goodbye
    confirmed  the worker has spoken in it: it knows of this session, and counts in it
    over       nothing more is to be sent
    """

    def __init__(self, name: str, register: Register, now_s: float) -> None:
        self.name = name
        self.register = register
        self.stream = 0
        self.heard_s = now_s
        self.dropped_s = now_s
        self.leaving = False
        self.confirmed = False
        self.over = False
        self._outbox: Outbox[control_pb2.ToWorker] = Outbox()
        self._heard = 0
        self._told = 0
        self._tell_heard = False
        self._wake = asyncio.Event()

    def attach(self, heard: int) -> int:
        """A stream begins; one that is still there ends. `heard` by the worker so far. Gives the stream's number."""
        self._outbox.forget(heard)
        self._outbox.rewind()
        self.stream = next(_STREAMS)
        self._wake.set()
        self._wake = asyncio.Event()
        return self.stream

    def detach(self, stream: int, now_s: float) -> None:
        """That stream has ended; nothing happens if another has taken its place."""
        if self.stream == stream:
            self.stream = 0
            self.dropped_s = now_s
            self._wake.set()

    def end(self) -> None:
        """No stream carries it any more, once what was to be sent is sent."""
        self.over = True
        self._wake.set()

    def send(self, message: ToWorker) -> None:
        """Queues a message. Raises OutboxFull."""
        proto = codec.to_worker_proto(message)
        self._outbox.add(proto, proto.ByteSize())
        self._wake.set()

    def hear(self, frame: control_pb2.WorkerFrame, now_s: float) -> bool:
        """Takes note of a frame. Gives whether its message is new: to be acted on. Raises ExternalError for a gap."""
        self.heard_s = now_s
        self.confirmed = True
        self._outbox.forget(frame.heard)
        if frame.number <= self._heard:
            return False
        if frame.number != self._heard + 1:
            raise ExternalError(f"message {self._heard + 1} of its session is missing")
        self._heard = frame.number
        self.leaving = self.leaving or frame.message.WhichOneof("kind") == "worker_leaving"
        # beats tell what was heard; not soon enough for one that waits to leave, or that has much to keep
        self._tell_heard = self.leaving or frame.number - self._told >= _UNTOLD_MAX
        if self._tell_heard:
            self._wake.set()
        return True

    def frame(self, message: ToWorker) -> control_pb2.CoordinatorFrame:
        """A frame that is not counted."""
        return control_pb2.CoordinatorFrame(heard=self._heard, message=codec.to_worker_proto(message))

    async def frames(self, stream: int, heartbeat_s: float) -> AsyncIterator[control_pb2.CoordinatorFrame]:
        """What that stream is to carry, beats included, until it is replaced or the session is over."""
        loop = asyncio.get_running_loop()
        beat_s = loop.time()
        while self.stream == stream:
            self._wake.clear()
            if self._tell_heard or loop.time() >= beat_s:
                self._tell_heard, self._told = False, self._heard
                beat_s = loop.time() + heartbeat_s
                yield self.frame(Heartbeat())
            elif (taken := self._outbox.take()) is not None:
                number, message = taken
                yield control_pb2.CoordinatorFrame(number=number, heard=self._heard, message=message)
            elif self.over:
                return
            else:
                await _wait(self._wake, beat_s - loop.time())


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        pass
