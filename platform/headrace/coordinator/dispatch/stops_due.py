"""The times of stops that wait for their job to get a driver. Belongs to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.coordinator.job_registry.events import Stop

LEFT_LEAST_MS = 1_000
"""Lower bound of the time of a driver that is late."""


class StopsDue:
    """One entry for each stop that waits, until its time is over."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        """Request -> when its time is over, by the loop's clock."""

    def watch(self, stop: Stop, on_due: Callable[[], None]) -> None:
        """Begins the time of a stop. `on_due` is called when it is over."""
        loop = asyncio.get_running_loop()
        self._due_s[stop.request] = loop.time() + stop.within_ms / 1000

        def due() -> None:
            del self._due_s[stop.request]
            on_due()

        loop.call_at(self._due_s[stop.request], due)

    def left_ms(self, stop: Stop) -> int:
        """Returns what is left of the stop's time: all of it if it has not waited."""
        due_s = self._due_s.get(stop.request)
        if due_s is None:
            return stop.within_ms
        return max(round((due_s - asyncio.get_running_loop().time()) * 1000), LEFT_LEAST_MS)
