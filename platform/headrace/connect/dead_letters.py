"""The contract for sinks that can read back the dead letters they have written, and send them again.

    DeadLetterSink          a SinkConfig whose connector can do so
      .open_dead_letters()  -> DeadLetters: reads them as consumers do, and writes them to their origin

A dead letter is a message or row that could not be processed. It carries its origin and the reason if its sink's
`headers` ask for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.connect.sink import SinkContext
from headrace.connect.source import SplitId


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter.

    place, position     where it is stored
    origin, origin_position   where it came from; None: not recorded
    at_ms               when it was written, epoch ms
    timestamp_ms        the record's own timestamp, epoch ms; None: not recorded
    headers             the record's own headers, without those of the letter
    """

    place: SplitId
    position: int
    origin: SplitId | None
    origin_position: int | None
    reason: str
    key: bytes | None
    value: bytes | None
    at_ms: int
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Resent:
    """The result of one `resend`, done or planned. to: topic -> rows; more: further letters follow; empty: letters
    without content, which are passed over."""

    to: dict[str, int]
    more: bool
    empty: int = 0

    @property
    def rows(self) -> int:
        """Rows over all topics."""
        return sum(self.to.values())


class DeadLetters(Protocol):
    """The dead letters of one sink. Used by one thread."""

    def newest(self, limit: int) -> Sequence[DeadLetter]:
        """The newest `limit` letters that readers can see, oldest first. Raises ExternalError."""
        ...

    def resend(self, to: str | None, limit: int, *, do: bool) -> Resent:
        """Sends the next `limit` letters that no call has sent before; without `do` it only counts them.

        to   the topic to send them to; None: each to its origin

        A letter without content (`value` None) is passed over: its message or row could not be written as a letter.
        Each letter is sent once, whatever the number and the outcome of calls, provided only its sink writes to the
        topic. Raises UserError for a letter without an origin, ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@runtime_checkable
class DeadLetterSink(Protocol):
    """A sink whose dead letters can be read back."""

    def open_dead_letters(self, context: SinkContext) -> DeadLetters:
        """Opens the live half. `context.job` is the pipeline's name: all its runs share the record of sent letters."""
        ...
