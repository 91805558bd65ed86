"""The simulation finds what is broken: one rule of the registry at a time is, and some seed must fail."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headrace.coordinator.job_registry import effects as do
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.job_registry.entry import Entry, Phase
from headrace.coordinator.job_registry.registry import Registry
from headrace.rpc.messages import Failure
from sim.finds import Breaks, each_of, require_found
from sim.registry.run import play

SEEDS_MAX = 150


# ---- owners ----------------------------------------------------------------------------------------------------------


def _a_stale_try_drives(patch: pytest.MonkeyPatch) -> None:
    on_try = Registry._on_try

    def broken(self: Registry, event: on.TryReady | on.TryAway | on.TryHopeless) -> None:
        entry = self._jobs[event.job]
        if isinstance(event, on.TryReady) and entry.phase is not Phase.DRIVEN:
            self._drive(entry)
        else:
            on_try(self, event)

    patch.setattr(Registry, "_on_try", broken)


def _a_try_counts_whatever_its_number(patch: pytest.MonkeyPatch) -> None:
    on_try = Registry._on_try

    def broken(self: Registry, event: on.TryReady | on.TryAway | on.TryHopeless) -> None:
        on_try(self, type(event)(event.job, self._jobs[event.job].tries, *_reasons(event)))

    patch.setattr(Registry, "_on_try", broken)


def _reasons(event: on.TryReady | on.TryAway | on.TryHopeless) -> tuple[str, ...]:
    return () if isinstance(event, on.TryReady) else (event.reason,)


def _a_job_is_tried_once(patch: pytest.MonkeyPatch) -> None:
    on_try = Registry._on_try
    patch.setattr(
        Registry, "_on_try", lambda self, event: None if isinstance(event, on.TryAway) else on_try(self, event)
    )


def _jobs_are_tried_one_after_the_other(patch: pytest.MonkeyPatch) -> None:
    wait = Registry._wait

    def broken(self: Registry, entry: Entry, delay_s: float) -> None:
        wait(self, entry, delay_s + 40.0 * sum(each.phase is Phase.WAITING for each in self._jobs.values()))

    patch.setattr(Registry, "_wait", broken)


def _a_coordinator_that_ends_drives_what_is_submitted(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Registry, job: str) -> None:
        self._jobs[job] = Entry(job, self._submitting.pop(job), Phase.DRIVEN, self._retry_s)
        self._effects.append(do.Drive(job))

    patch.setattr(Registry, "_on_accepted", broken)


# ---- names -----------------------------------------------------------------------------------------------------------


def _a_job_that_waits_holds_no_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "holds_name", property(lambda self: self.phase not in {Phase.WAITING, Phase.ENDED}))


def _a_job_that_is_ending_holds_no_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "holds_name", property(lambda self: self.phase not in {Phase.ENDING, Phase.ENDED}))


def _a_job_that_was_left_holds_no_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "holds_name", property(lambda self: self.phase not in {Phase.LEFT, Phase.ENDED}))


def _a_submission_holds_no_name(patch: pytest.MonkeyPatch) -> None:
    require = Registry._require_free_name

    def broken(self: Registry, entries: Iterable[Entry], name: str) -> None:
        submitting, self._submitting = self._submitting, {}
        try:
            require(self, entries, name)
        finally:
            self._submitting = submitting

    patch.setattr(Registry, "_require_free_name", broken)


def _a_submission_that_failed_stays_on_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "_on_submit_failed", lambda self, event: self._submitting.pop(event.job, None))


# ---- ends ------------------------------------------------------------------------------------------------------------


def _a_cancel_is_answered_before_its_end_is_kept(patch: pytest.MonkeyPatch) -> None:
    conclude = Registry._conclude

    def broken(self: Registry, entry: Entry, end: on.End, back: Phase | None) -> None:
        self._effects += [do.Answer(request) for request in entry.cancels]
        entry.cancels = []
        conclude(self, entry, end, back)

    patch.setattr(Registry, "_conclude", broken)


def _what_a_driver_answers_is_passed_on_at_once(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Registry, event: on.Answered) -> None:
        self._jobs[event.job].posted.remove(event.request)
        self._effects.append(do.Answer(event.request, event.path, event.failure))

    patch.setattr(Registry, "_on_answered", broken)


def _an_end_is_shown_before_it_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Entry, "state", property(lambda self: "SUSPENDED" if self.end is None else self.end.state))


def _an_end_that_was_not_kept_is_not_withdrawn(patch: pytest.MonkeyPatch) -> None:
    on_not_kept = Registry._on_not_kept

    def broken(self: Registry, entry: Entry, failure: Failure) -> None:
        on_not_kept(self, entry, failure)
        if entry.phase is Phase.REOPENING:
            self._effects.pop()
            self._on_withdrawn(entry)

    patch.setattr(Registry, "_on_not_kept", broken)


def _an_end_is_kept_once_or_never(patch: pytest.MonkeyPatch) -> None:
    on_not_kept = Registry._on_not_kept

    def broken(self: Registry, entry: Entry, failure: Failure) -> None:
        on_not_kept(self, entry, failure)
        self._effects = [each for each in self._effects if not isinstance(each, do.KeepEnd)]

    patch.setattr(Registry, "_on_not_kept", broken)


# ---- requests --------------------------------------------------------------------------------------------------------


def _a_cancel_forgets_the_stops_that_wait(patch: pytest.MonkeyPatch) -> None:
    on_kept = Registry._on_kept

    def broken(self: Registry, entry: Entry, forgotten: Iterable[str]) -> None:
        entry.stops = []
        on_kept(self, entry, forgotten)

    patch.setattr(Registry, "_on_kept", broken)


def _a_driver_is_not_asked_for_the_stops_that_waited(patch: pytest.MonkeyPatch) -> None:
    drive = Registry._drive

    def broken(self: Registry, entry: Entry) -> None:
        entry.stops = []
        drive(self, entry)

    patch.setattr(Registry, "_drive", broken)


def _stops_of_a_job_that_is_left_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    leave = Registry._leave

    def broken(self: Registry, entry: Entry, reason: str, *, elsewhere: bool = False) -> None:
        entry.stops = []
        leave(self, entry, reason, elsewhere=elsewhere)

    patch.setattr(Registry, "_leave", broken)


def _who_cancels_while_an_end_is_withdrawn_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    on_withdrawn = Registry._on_withdrawn

    def broken(self: Registry, entry: Entry) -> None:
        entry.cancels = []
        on_withdrawn(self, entry)

    patch.setattr(Registry, "_on_withdrawn", broken)


def _what_a_driver_was_asked_that_never_began_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "_on_drive_failed", lambda self, entry, reason: self._leave(entry, reason))


def _the_time_of_a_stop_has_no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "_on_stop_due", lambda self, event: None)


BREAKS: list[tuple[Breaks, int]] = [
    (_the_time_of_a_stop_has_no_end, 0),
    (_a_stale_try_drives, 0),
    (_a_try_counts_whatever_its_number, 100),
    (_a_job_is_tried_once, 0),
    (_jobs_are_tried_one_after_the_other, 0),
    (_a_coordinator_that_ends_drives_what_is_submitted, 0),
    (_a_job_that_waits_holds_no_name, 0),
    (_a_job_that_is_ending_holds_no_name, 0),
    (_a_job_that_was_left_holds_no_name, 0),
    (_a_submission_holds_no_name, 0),
    (_a_submission_that_failed_stays_on_disk, 0),
    (_a_cancel_is_answered_before_its_end_is_kept, 0),
    (_what_a_driver_answers_is_passed_on_at_once, 0),
    (_an_end_is_shown_before_it_is_kept, 0),
    (_an_end_that_was_not_kept_is_not_withdrawn, 0),
    (_an_end_is_kept_once_or_never, 0),
    (_a_cancel_forgets_the_stops_that_wait, 0),
    (_a_driver_is_not_asked_for_the_stops_that_waited, 0),
    (_stops_of_a_job_that_is_left_are_forgotten, 0),
    (_who_cancels_while_an_end_is_withdrawn_is_forgotten, 0),
    (_what_a_driver_was_asked_that_never_began_is_forgotten, 400),
]
"""What is broken, and from which seed on it is looked for: some take many seeds to show."""


@each_of(BREAKS)
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    require_found(play, first, SEEDS_MAX)
