"""Decides after which failures a job restarts, and when. Pure: times and a random number are arguments.

A user error that a retry cannot heal ends a job at once, whatever the strategy: a poison row, a missing topic or an
expired offset fails every attempt alike, and restarts would only hide it. The strategy counts all other failures, also
unknown ones.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, assert_never

from headrace.core.errors import Domain
from headrace.plan.checkpoint_terms import RATE_DELAY_MS
from headrace.rpc.messages import Failure
from headrace.spec.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Restart

MULTIPLIER = 1.5
"""Ratio of a delay to the delay before it."""
JITTER = 0.1
"""Greatest random deviation of a delay, as a fraction of it: jobs that failed together must not restart together."""
STABLE_MS = 600_000
"""After this time without a failure the first delay applies again."""


class RestartStrategy(Protocol):
    """Counts the failures of one job. Times are ms of one clock; `jitter` is a random number, 0 to 1."""

    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        """Returns the delay before the next attempt (ms), or None to give up. Called once for each failed attempt."""
        ...

    def on_stable(self, now_ms: int) -> None:
        """The job runs and has not failed up to now. Called now and then, such as at each completed checkpoint."""
        ...


def may_restart(failure: Failure) -> bool:
    """Whether the strategy decides; if not, the job fails now."""
    return failure.retry or failure.domain != Domain.USER


def open_strategy(restart: Restart) -> RestartStrategy:
    """Returns the live half of `restart:` in a pipeline."""
    match restart:
        case ExponentialDelay():
            return _Exponential(restart)
        case FixedDelay():
            return _Fixed(restart)
        case FailureRate():
            return _Rate(restart)
        case NoRestart():
            return _Never()
        case _:
            assert_never(restart)


class _Exponential:
    def __init__(self, settings: ExponentialDelay) -> None:
        self._settings = settings
        self._delay_ms: float | None = None
        self._restarted_ms = 0

    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        self.on_stable(now_ms)
        last = self._delay_ms
        base = self._settings.initial_ms if last is None else last * MULTIPLIER
        self._delay_ms = min(base, self._settings.max_ms)
        delay_ms = round(self._delay_ms * (1 + JITTER * (2 * jitter - 1)))
        self._restarted_ms = now_ms + delay_ms
        return delay_ms

    def on_stable(self, now_ms: int) -> None:
        if now_ms - self._restarted_ms >= STABLE_MS:
            self._delay_ms = None


class _Fixed:
    def __init__(self, settings: FixedDelay) -> None:
        self._settings = settings
        self._left = settings.attempts

    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        if self._left == 0:
            return None
        self._left -= 1
        return self._settings.delay_ms

    def on_stable(self, now_ms: int) -> None:
        """Does nothing: the number of attempts is for the job's whole life."""


class _Rate:
    def __init__(self, settings: FailureRate) -> None:
        self._per_ms = settings.per_ms
        # one more than is allowed: when all of these lie within the time, there were too many
        self._at_ms: deque[int] = deque(maxlen=settings.failures + 1)
        self._allowed = settings.failures

    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        self._at_ms.append(now_ms)
        many = len(self._at_ms) > self._allowed and now_ms - self._at_ms[0] <= self._per_ms
        return None if many else RATE_DELAY_MS

    def on_stable(self, now_ms: int) -> None:
        """Does nothing: only failures and their times count."""


class _Never:
    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        return None

    def on_stable(self, now_ms: int) -> None:
        """Does nothing: there is no memory."""
