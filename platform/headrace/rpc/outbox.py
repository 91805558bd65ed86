"""What one side of a stream has said and the other has not yet heard: why a dropped stream loses no message. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

MESSAGES_MAX = 20_000
BYTES_MAX = 128 << 20

_Message = TypeVar("_Message")


class OutboxFullError(Exception):
    """The other side has not heard anything for so long that no more can be kept."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_Message]):
    number: int
    message: _Message
    size: int


class Outbox(Generic[_Message]):
    """Numbers messages from 1 and keeps each until it is heard. Bounded in messages and bytes; takes no lock."""

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
        """Takes a message of `size` bytes. Raises OutboxFullError; one message alone always fits."""
        if len(self) and (len(self) >= self._messages_max or self._bytes + size > self._bytes_max):
            raise OutboxFullError
        self.last += 1
        self._bytes += size
        self._unsent.append(_Kept(self.last, message, size))

    def take(self) -> tuple[int, _Message] | None:
        """The next message that this stream has not carried, with its number."""
        if not self._unsent:
            return None
        kept = self._unsent.popleft()
        self._sent.append(kept)
        return kept.number, kept.message

    def forget(self, heard: int) -> None:
        """The other side has heard every message up to that number."""
        for queue in (self._sent, self._unsent):
            while queue and queue[0].number <= heard:
                self._bytes -= queue.popleft().size

    def rewind(self) -> None:
        """A new stream: what was sent and not heard is to be sent again."""
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()

    def renewed(self, after: int) -> Outbox[_Message]:
        """For a session that starts anew: what was added after that number, unsent, numbered from 1."""
        outbox: Outbox[_Message] = Outbox(self._messages_max, self._bytes_max)
        for kept in (*self._sent, *self._unsent):
            if kept.number > after:
                outbox.add(kept.message, kept.size)
        return outbox
