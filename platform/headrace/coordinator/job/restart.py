"""Decides after which failures a job restarts, and when. Pure: times and a random number are arguments.

A user error that a retry cannot correct ends a job at once, with any strategy: a poison row, a missing topic or an
expired offset fails every attempt in the same way, and restarts would only hide it. The strategy decides for all other
failures, including unknown ones.
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
"""Greatest random deviation of a delay, as a fraction of it, so that jobs that failed together restart apart."""
STABLE_MS = 600_000
"""After this time without a failure, in ms, the initial delay applies again."""


class RestartStrategy(Protocol):
    """Counts the failures of one job. Times are ms of one clock; `jitter` is a random number, 0 to 1."""

    def on_failure(self, now_ms: int, jitter: float) -> int | None:
        """Returns the delay before the next attempt (ms); None: no further attempt, the job fails. Called once for each
        failed attempt."""
        ...

    def on_stable(self, now_ms: int) -> None:
        """Records that the job runs and has not failed up to now. Called after each committed checkpoint."""
        ...


def may_restart(failure: Failure) -> bool:
    """Whether the strategy decides about a restart; False: the job fails now."""
    return failure.retry or failure.domain != Domain.USER


def open_strategy(restart: Restart) -> RestartStrategy:
    """Returns the strategy of a pipeline's `restart:` settings, with no failure counted."""
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
        """Does nothing: the number of attempts counts for the strategy's whole life."""


class _Rate:
    def __init__(self, settings: FailureRate) -> None:
        self._per_ms = settings.per_ms
        # one entry more than failures are allowed: if all of them lie within `per_ms`, there were too many
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
        """Does nothing: no restart is ever allowed."""
