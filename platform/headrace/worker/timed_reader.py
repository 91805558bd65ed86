"""A reader that measures how long its polls take: the time in which a source subtask waits for its input."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from headrace.connect.source import Polled, Reader, Split, SplitId


class TimedReader:
    """Passes everything on. `waited_ms` is read by other threads."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.waited_ms = 0.0

    def poll(self, timeout_ms: int) -> Polled:
        """Polls, and adds the time that it took."""
        begun_s = time.monotonic()
        polled = self._reader.poll(timeout_ms)
        self.waited_ms += (time.monotonic() - begun_s) * 1000
        return polled

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
