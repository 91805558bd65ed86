"""The simulation finds what is wrong: each of these breaks one rule, and some seed soon tells."""

from __future__ import annotations

import pytest

from headrace.coordinator.job.job import Job, RepeatedFailures
from headrace.coordinator.job.states import restarting
from headrace.coordinator.job.states.shared import any_event
from headrace.coordinator.job.states.transitions import STAY
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure
from sim.finds import Breaks, each_of, require_found
from sim.poisoned.run import play

SEEDS_MAX = 150


def _no_failure_repeats(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RepeatedFailures, "on_failure", lambda self, failure, positions, now_ms: None)


def _kills_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headrace.coordinator.job.job.Domain", _Outage)


class _Outage:
    EXTERNAL = "none"


def _a_late_cause_is_dropped(patch: pytest.MonkeyPatch) -> None:
    for each in (any_event, restarting):
        patch.setattr(each, "after_cause", lambda job, found, now_ms: STAY)


def _an_outage_explains_an_attempt(patch: pytest.MonkeyPatch) -> None:
    count = Job.count

    def broken(self: Job, failure: Failure, attempt: int, now_ms: int) -> Failure | None:
        if failure.domain == Domain.EXTERNAL:
            self.explained = attempt
        return count(self, failure, attempt, now_ms)

    patch.setattr(Job, "count", broken)


def _progress_does_not_end_the_count(patch: pytest.MonkeyPatch) -> None:
    on_failure = RepeatedFailures.on_failure

    def broken(self: RepeatedFailures, failure: Failure, positions: object, now_ms: int) -> Failure | None:
        return on_failure(self, failure, frozenset(), now_ms)

    patch.setattr(RepeatedFailures, "on_checkpoint", lambda self, positions, now_ms: None)
    patch.setattr(RepeatedFailures, "on_failure", broken)


BREAKS: list[tuple[Breaks, int]] = [
    (_no_failure_repeats, 0),
    (_kills_count, 0),
    (_a_late_cause_is_dropped, 0),
    (_an_outage_explains_an_attempt, 0),
    (_progress_does_not_end_the_count, 0),
]
"""What is broken, and from which seed on it is looked for."""


@each_of(BREAKS)
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    require_found(play, first, SEEDS_MAX)
