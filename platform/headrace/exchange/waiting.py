"""How long a sender waited for room: what backpressure costs it. Read by others while it waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class WaitTime:
    """Adds up waits; one thread waits, any may look."""

    def __init__(self) -> None:
        self._total_s = 0.0
        self._since_s: float | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside."""
        begun_s = self._since_s = time.monotonic()
        try:
            yield
        finally:
            self._since_s = None
            self._total_s += time.monotonic() - begun_s

    @property
    def ms(self) -> float:
        """All waits so far, with the one that goes on."""
        since_s = self._since_s
        going_on_s = time.monotonic() - since_s if since_s is not None else 0.0
        return (self._total_s + going_on_s) * 1_000
