"""The only access to the machine's clocks, for code that must not read them itself."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time; tests pass a virtual one."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; the zero is arbitrary."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000
