"""The time that a thread has spent in calls of a kind, such as waits for room. Other threads read it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums calls that do not overlap; one thread calls, any thread may read."""

    __slots__ = ("_since_s", "_total_s")

    def __init__(self) -> None:
        self._total_s = 0.0
        self._since_s: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures the time inside the block."""
        self.begin(time.monotonic())
        try:
            yield
        finally:
            self.end(time.monotonic())

    def begin(self, now_s: float) -> None:
        """A call begins. now_s: of `time.monotonic`."""
        self._since_s = now_s

    def end(self, now_s: float) -> None:
        """The call that began last has ended."""
        since_s = self._since_s
        if since_s is not None:
            self._since_s = None
            self._total_s += now_s - since_s

    @property
    def ms(self) -> float:
        """All calls so far, including the current one, in ms."""
        since_s = self._since_s
        going_on_s = time.monotonic() - since_s if since_s is not None else 0.0
        return (self._total_s + going_on_s) * 1_000
