"""A reader that measures how long its polls take: the time in which a source subtask waits for its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.connect.source import Polled, Reader, Split, SplitId
from headrace.exchange.waiting import WaitTime


class TimedReader:
    """Passes everything on."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.waited = WaitTime()
        """In polls; other threads may look."""

    def poll(self, timeout_ms: int) -> Polled:
        """Polls, and counts the time that it takes."""
        with self.waited.waiting():
            return self._reader.poll(timeout_ms)

    def assign(self, splits: Sequence[Split]) -> None:
        """Passed on."""
        self._reader.assign(splits)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Passed on."""
        self._reader.pause(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Passed on."""
        self._reader.resume(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Passed on."""
        self._reader.commit(positions)

    def close(self) -> None:
        """Passed on."""
        self._reader.close()
