"""Retries of a failed call: exponential backoff, and the loop of a thread that pauses until a bound is reached.

    retries = Retries(Backoff(first_s=0.1, max_s=2.0), patience_s=15.0)
    while True:
        try:
            return call()
        except TransientError:
            if not retries.pause():
                raise

`Backoff` is pure. Use it without `Retries` in an asyncio loop, and in a loop that can be interrupted or whose bound
changes while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds: `first_s`, then `growth` times the last pause, at most `max_s`. `first_s` = `max_s`: constant.

    jitter   a pause is longer by up to this share of it; a random number from 0 to 1 selects how much
    """

    first_s: float
    max_s: float
    growth: float = 2.0
    jitter: float = 0.0

    def next_s(self, last_s: float = 0.0) -> float:
        """The pause after one of `last_s` (0: after none), without jitter."""
        return min(max(last_s * self.growth, self.first_s), self.max_s)

    def jittered_s(self, pause_s: float, drawn: float) -> float:
        """The same pause with jitter."""
        return pause_s * (1 + self.jitter * drawn)


class Retries:
    """The retries of one call, constructed just before the first try. Used by one thread. `failures`: failed tries.

    patience_s  seconds from now after which there are no more tries; None: no time limit
    overruns    whether the last pause may end after `patience_s`; False: the last try begins within it
    tries_max   limit of tries, including the first; None: no limit
    draw        returns a random number from 0 to 1 for the jitter
    """

    def __init__(
        self,
        backoff: Backoff,
        patience_s: float | None = None,
        *,
        overruns: bool = True,
        tries_max: int | None = None,
        draw: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._backoff = backoff
        self._deadline_s = None if patience_s is None else time.monotonic() + patience_s
        self._overruns = overruns
        self._tries_max = tries_max
        self._draw = draw
        self._pause_s = 0.0
        self.failures = 0

    def pause(self) -> bool:
        """Pauses before the next try. False: the bound is reached, and there was no pause."""
        self.failures += 1
        if self._tries_max is not None and self.failures >= self._tries_max:
            return False
        self._pause_s = self._backoff.next_s(self._pause_s)
        pause_s = self._backoff.jittered_s(self._pause_s, self._draw())
        begins_s = time.monotonic() + (0.0 if self._overruns else pause_s)
        if self._deadline_s is not None and begins_s >= self._deadline_s:
            return False
        time.sleep(pause_s)
        return True

    def pause_or_raise(self, error: HeadraceError) -> None:
        """Pauses before the next try. Raises `error` if it is permanent (`retry` is False) or the bound is reached."""
        if not error.retry or not self.pause():
            raise error
