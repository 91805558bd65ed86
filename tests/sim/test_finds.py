"""The simulation finds what is wrong: each of these breaks one rule, and some seed soon tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.checkpoint import journal
from headrace.checkpoint.journal import Journal, Prunable, Verdict, Written
from headrace.checkpoint.records import Record
from headrace.coordinator import journaling
from headrace.coordinator.attempt import Attempt
from headrace.coordinator.epochs import Pending
from headrace.coordinator.events import JournalRead
from headrace.coordinator.job import Job
from headrace.coordinator.states.base import State
from headrace.coordinator.states.live import Live
from headrace.coordinator.states.running import Running
from headrace.coordinator.states.stopping import Stopping
from sim.run import play

SEEDS_MAX = 150
Breaks = Callable[[pytest.MonkeyPatch], None]


def _others_records_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    def on_put(self: Journal, put: Record, found: Record | None, higher: object) -> Verdict:
        return Written(put, self._with(put))

    patch.setattr(Journal, "on_put", on_put)


def _nobody_looks_above_what_was_put(patch: pytest.MonkeyPatch) -> None:
    on_put = Journal.on_put
    patch.setattr(Journal, "on_put", lambda self, put, found, higher: on_put(self, put, found, ()))


def _what_was_decided_is_not_committed_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "uncommitted", None)


def _an_earlier_checkpoint_is_restored(patch: pytest.MonkeyPatch) -> None:
    read = journaling.journal_read

    def broken(found: Journal, damaged: Any = None) -> JournalRead:
        checkpoints = found.checkpoints
        return replace(read(found, damaged), restore=checkpoints[0].manifest if checkpoints else None)

    patch.setattr("sim.coordinator.journal_read", broken)


def _epochs_begin_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "epoch", 0)


def _committed_is_said_too_early(patch: pytest.MonkeyPatch) -> None:
    on_record = Live._on_record

    def broken(self: Live, job: Job, now_ms: int) -> State:
        pending = self.attempt.epochs.pending
        following = on_record(self, job, now_ms)
        if pending is not None and pending.manifest is not None and pending.stage.value == "committing":
            self._close(job, pending)
        return following

    patch.setattr(Live, "_on_record", broken)


def _files_that_are_needed_are_pruned(patch: pytest.MonkeyPatch) -> None:
    prunable = Journal.prunable

    def broken(self: Journal, retained: int) -> Prunable:
        gone = prunable(self, retained)
        named = sorted(path for each in self.checkpoints for path in journal.own_files(each.manifest))
        return replace(gone, files=(*gone.files, *named[:1]))

    patch.setattr(Journal, "prunable", broken)


def _a_stop_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "stopping", None)


def _time_is_up_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Running, "due_ms", lambda self, job: self.attempt.due_ms(periodic=True))


def _whoever_waits_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Running, "drop_savepoints", lambda self, job, failure: None)


def _a_savepoint_in_flight_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Stopping, job: Job, now_ms: int) -> State:
        pending: Pending = self.attempt.epochs.done(now_ms)
        return self.after(job, pending, now_ms)

    patch.setattr(Stopping, "_done", broken)


def _new_partitions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "assign_found", lambda self, job, source, found: None)


BREAKS: list[tuple[Breaks, int]] = [
    (_others_records_do_not_matter, 50),
    (_what_was_decided_is_not_committed_first, 0),
    (_an_earlier_checkpoint_is_restored, 0),
    (_epochs_begin_anew, 0),
    (_committed_is_said_too_early, 0),
    (_files_that_are_needed_are_pruned, 0),
    (_a_stop_is_forgotten, 0),
    (_time_is_up_for_ever, 0),
    (_whoever_waits_is_forgotten, 0),
    (_a_savepoint_in_flight_is_forgotten, 0),
    (_new_partitions_are_forgotten, 140),
    # it takes a long sleep and many records
    (_nobody_looks_above_what_was_put, 160),
]
"""What is broken, and from which seed on it is looked for: some take many seeds to show."""


@pytest.mark.parametrize(("breaks", "first"), BREAKS, ids=lambda value: getattr(value, "__name__", "").strip("_"))
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(first, first + SEEDS_MAX):
            play(seed)
