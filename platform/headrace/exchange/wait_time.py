"""The time that a thread has waited: a sender for room (its backpressure), a sink for its writer. Other threads read it
while the thread waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class WaitTime:
    """Sums waits; one thread waits, any thread may read."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._since_s: float | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Measures the time inside the block."""
        begun_s = self._since_s = time.monotonic()
        try:
            yield
        finally:
            self._since_s = None
            self._total_s += time.monotonic() - begun_s

    @property
    def ms(self) -> float:
        """All waits so far, including the current one, in ms."""
        since_s = self._since_s
        going_on_s = time.monotonic() - since_s if since_s is not None else 0.0
        return (self._total_s + going_on_s) * 1_000
