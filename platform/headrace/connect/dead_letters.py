"""What a sink may offer beside writing: reading back the dead letters that it has written, and sending them again.

    DeadLetterSink          a SinkConfig whose connector can do so
      .open_dead_letters()  -> DeadLetters: reads them as their readers do, and writes them where they came from

A dead letter is a message or row that could not be processed. It carries where it came from and why it is here, if its
sink was told to say so (`headers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.connect.sink import SinkContext
from headrace.connect.source import SplitId


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One of them.

    place, position     where it lies
    origin, origin_position   where it came from; None: it does not say
    at_ms               when it was written, epoch ms
    """

    place: SplitId
    position: int
    origin: SplitId | None
    origin_position: int | None
    reason: str
    key: bytes | None
    value: bytes | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class Resent:
    """What one call has sent, or would send. to: how many rows where; more: there are others behind them."""

    to: dict[str, int]
    more: bool

    @property
    def rows(self) -> int:
        """How many in all."""
        return sum(self.to.values())


class DeadLetters(Protocol):
    """The dead letters of one sink. Used by one thread."""

    def newest(self, limit: int) -> Sequence[DeadLetter]:
        """The newest that readers see, oldest first. Raises ExternalError."""
        ...

    def resend(self, to: str | None, limit: int, *, do: bool) -> Resent:
        """Sends the next `limit` letters that no call has sent before; without `do` it only says which they would be.

        to   the topic that gets them; None: each goes back to where it came from
        Each letter is sent once, however often this is called and however it ends, if only its sink writes there.
        Raises UserError where a letter does not say where it came from, ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


@runtime_checkable
class DeadLetterSink(Protocol):
    """A sink whose letters can be read back."""

    def open_dead_letters(self, context: SinkContext) -> DeadLetters:
        """The live part. `context.job`: the pipeline's name: runs of it share what has been sent."""
        ...
