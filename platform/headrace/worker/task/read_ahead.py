"""Polls a reader one batch ahead of the chain, in a thread of its own.

    loop thread     poll: take batch 1 ── chain works on batch 1 ── poll: take batch 2 ── chain works on batch 2
                             │                                            ^     │
                             └ ask                                 answer │     └ ask
    ahead thread                 poll batch 2 ────────────────────────────┘        poll batch 3 ..

At most one batch is ahead: polled, or being polled, and not handed over yet. The loop applies everything that a poll
returns (positions, ends, lag) when it takes the batch, so a barrier between two batches has the position of the last
batch that the chain received. A batch that the loop never takes is dropped with its positions: nothing of it is lost,
because the next attempt reads it again.

The reader has one user at a time. Every call of the loop other than `poll` waits until the poll ahead has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from headrace.connect.source import ConfirmingReader, Polled, Reader, Split, SplitId
from headrace.core.clock import Clock


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one poll. `ended_ms`: when the poll ended (monotonic ms), not when the loop took it."""

    polled: Polled
    ended_ms: int


def is_behind(polled: Polled, rows_max: int) -> bool:
    """Whether a poll of at most `rows_max` rows shows that the source is behind, so that its next poll may run ahead.

    The batch is at least half full. A source that keeps up with its input returns smaller batches: polling it ahead
    would only make them smaller still, and a small batch costs more CPU per row.
    """
    return polled.batch is not None and 2 * len(polled.batch) >= rows_max


class ReadAhead:
    """A reader with at most one poll ahead. Used by the loop's thread, except for `end`, which follows the loop."""

    def __init__(self, reader: Reader, clock: Clock, *, name: str, rows_max: int, allowed: bool) -> None:
        """`name`: of the thread. `rows_max`: limit of one poll. `allowed`: False polls in the loop's thread only."""
        self._reader = reader
        self._clock = clock
        self._name = name
        self._rows_max = rows_max
        self._allowed = allowed
        self._unread: set[SplitId] = set()
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._answers: SimpleQueue[Reading | BaseException] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._in_flight = False
        self._held: Reading | BaseException | None = None

    def poll(self, timeout_ms: int) -> Reading:
        """Returns the batch ahead, or polls if there is none. Then starts the next poll, if the source is behind.

        Raises the error of the poll ahead, with the traceback of its thread, in the place of its batch.
        """
        reading = self._take(timeout_ms)
        self._unread -= reading.polled.finished
        # without an unread split the poll would only wait, and its answer would be out of date when splits are added
        if self._allowed and self._unread and is_behind(reading.polled, self._rows_max):
            self._ask(timeout_ms)
        return reading

    def _take(self, timeout_ms: int) -> Reading:
        self._settle()
        held, self._held = self._held, None
        if isinstance(held, BaseException):
            raise held
        return self._polled(timeout_ms) if held is None else held

    def assign(self, splits: Sequence[Split]) -> None:
        """See Reader. The batch ahead has no rows of these splits."""
        self._settle()
        self._unread |= {split.id for split in splits}
        self._reader.assign(splits)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """See Reader. The batch ahead is still handed over, also its rows of these partitions: the reader has moved
        past them and would not return them again."""
        self._settle()
        self._reader.pause(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """See Reader."""
        self._settle()
        self._reader.resume(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """See Reader."""
        self._settle()
        self._reader.commit(positions)

    def confirm(self) -> None:
        """See ConfirmingReader; does nothing for other readers."""
        if isinstance(self._reader, ConfirmingReader):
            self._settle()
            self._reader.confirm()

    def end(self) -> None:
        """Waits for the poll ahead, drops its result, and ends the thread. Then nobody uses the reader.

        Called once, after the loop. It blocks for as long as the poll does, because a native client must not be closed
        while a thread is inside of it.
        """
        self._settle()
        self._held = None
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()

    def _settle(self) -> None:
        """Waits until the poll ahead has ended, and holds its result."""
        if self._in_flight:
            self._held = self._answers.get()
            self._in_flight = False

    def _ask(self, timeout_ms: int) -> None:
        if self._thread is None:
            # daemon: a poll that never returns must not keep the process alive
            thread = threading.Thread(target=self._answer, name=self._name, daemon=True)
            thread.start()
            self._thread = thread
        self._in_flight = True
        self._asked.put(timeout_ms)

    def _answer(self) -> None:
        """The thread: one answer to each question, whatever the reader does."""
        while (timeout_ms := self._asked.get()) is not None:
            try:
                answer: Reading | BaseException = self._polled(timeout_ms)
            except BaseException as error:  # the loop raises it when it takes the answer
                answer = error
            self._answers.put(answer)
            # the thread keeps no reference: the loop frees the batch as soon as the chain is done with it
            del answer

    def _polled(self, timeout_ms: int) -> Reading:
        polled = self._reader.poll(timeout_ms)
        return Reading(polled, self._clock.monotonic_ms())
