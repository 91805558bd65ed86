"""Keeps sent messages until the other side acknowledges them, so that a dropped stream loses no message. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

MESSAGES_MAX = 20_000
BYTES_MAX = 128 << 20

_Message = TypeVar("_Message")


class OutboxFullError(Exception):
    """The outbox is full, because the other side does not acknowledge messages."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_Message]):
    number: int
    message: _Message
    size: int


class Outbox(Generic[_Message]):
    """Numbers messages from 1 and keeps each until it is acknowledged. Bounded in messages and bytes.

    Not thread-safe: the caller holds a lock.
    """

    def __init__(self, messages_max: int = MESSAGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._unsent: deque[_Kept[_Message]] = deque()
        self._sent: deque[_Kept[_Message]] = deque()
        self._bytes = 0
        self.last = 0

    def __len__(self) -> int:
        return len(self._unsent) + len(self._sent)

    def add(self, message: _Message, size: int) -> None:
        """Queues a message of `size` bytes. Raises OutboxFullError; an empty outbox accepts a message of any size."""
        if len(self) and (len(self) >= self._messages_max or self._bytes + size > self._bytes_max):
            raise OutboxFullError
        self.last += 1
        self._bytes += size
        self._unsent.append(_Kept(self.last, message, size))

    def take(self) -> tuple[int, _Message] | None:
        """The next message to send on this stream, with its number; None if there is none."""
        if not self._unsent:
            return None
        kept = self._unsent.popleft()
        self._sent.append(kept)
        return kept.number, kept.message

    def forget(self, acknowledged: int) -> None:
        """Drops the messages up to the number that the other side has acknowledged."""
        for queue in (self._sent, self._unsent):
            while queue and queue[0].number <= acknowledged:
                self._bytes -= queue.popleft().size

    def rewind(self) -> None:
        """Queues all unacknowledged messages again, for a new stream."""
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()

    def renewed(self, after: int) -> Outbox[_Message]:
        """The outbox of a new session: the messages after that number, unsent and numbered from 1."""
        outbox: Outbox[_Message] = Outbox(self._messages_max, self._bytes_max)
        for kept in (*self._sent, *self._unsent):
            if kept.number > after:
                outbox.add(kept.message, kept.size)
        return outbox
