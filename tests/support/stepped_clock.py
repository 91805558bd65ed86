"""A clock for modules that call `time.monotonic()`, which goes on only when a test says so."""

from __future__ import annotations


class SteppedClock:
    """Stands in for the module `time`: `monkeypatch.setattr(module, "time", clock)`."""

    def __init__(self) -> None:
        self._now_s = 1_000.0

    def monotonic(self) -> float:
        """Now, in seconds."""
        return self._now_s

    def step_ms(self, ms: int) -> None:
        """Time goes on."""
        self._now_s += ms / 1_000
