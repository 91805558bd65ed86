"""The drivers' simulation finds what is wrong: each of these breaks one rule, and some seed soon tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.checkpoint.journal import journal
from headrace.checkpoint.journal.journal import Journal, Prunable, PutResult, Written
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, Record
from headrace.checkpoint.journal.resolve import Resolution
from headrace.checkpoint.paths import STAGED, STATE
from headrace.core.errors import ExternalError, HeadraceError
from headrace.spark.driver.driver_shell import DriverShell
from headrace.spark.driver_machine import effects as do
from headrace.spark.driver_machine import events as on
from headrace.spark.driver_machine.effects import Step
from headrace.spark.driver_machine.machine import DriverMachine
from sim.drivers.run import play
from sim.finds import Breaks, each_of, require_found

SEEDS_MAX = 100
Handle = Callable[[DriverMachine, on.Event], Step]


def _instead(patch: pytest.MonkeyPatch, broken: Callable[[DriverMachine, on.Event, Handle], Step]) -> None:
    """Another answer of the machine to events."""
    handle = DriverMachine.handle
    patch.setattr(DriverMachine, "handle", lambda self, event: broken(self, event, handle))


def _ignored(machine: DriverMachine, value: object) -> None:
    """A machine cannot remember it."""


# ---- owning ----------------------------------------------------------------------------------------------------------


def _a_driver_deletes_before_it_owns(patch: pytest.MonkeyPatch) -> None:
    own, settle = DriverMachine._own, DriverMachine._settle

    def delete_first(self: DriverMachine) -> Step:
        return Step(do.RemoveLeftovers(self._attempt, self._unfinished))

    def broken(self: DriverMachine, event: on.Event, handle: Handle) -> Step:
        match event:
            case on.LeftoversRemoved():
                return own(self)
            case on.RecordWritten(AttemptRecord()):
                return settle(self)
            case _:
                return handle(self, event)

    patch.setattr(DriverMachine, "_own", delete_first)
    _instead(patch, broken)


def _a_driver_deletes_all_that_its_journal_does_not_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "headrace.spark.driver.driver_shell._before", lambda store, attempt: [*store.list(STAGED), *store.list(STATE)]
    )


def _a_driver_that_is_replaced_deletes_what_it_has_made(patch: pytest.MonkeyPatch) -> None:
    replaced: set[DriverMachine] = set()

    def broken(self: DriverMachine, event: on.Event, handle: Handle) -> Step:
        if isinstance(event, on.Replaced):
            replaced.add(self)
            return Step(do.RemoveLeftovers(self._attempt + 1, None))
        if self in replaced:
            return Step(do.Fail(ExternalError("it was replaced")))
        return handle(self, event)

    _instead(patch, broken)


def _others_records_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    def on_put(self: Journal, put: Record, found: Record | None, higher: object) -> PutResult:
        return Written(put, self._with(put))

    patch.setattr(Journal, "on_put", on_put)


def _nobody_looks_above_what_was_put(patch: pytest.MonkeyPatch) -> None:
    on_put = Journal.on_put
    patch.setattr(Journal, "on_put", lambda self, put, found, higher: on_put(self, put, found, ()))


def _an_earlier_put_counts_as_this_one(patch: pytest.MonkeyPatch) -> None:
    """As drivers did before."""
    append = DriverShell._append

    def broken(self: DriverShell, draft: Record) -> on.Event:
        before = self._journal.journal
        event = append(self, draft)
        return on.RecordWritten(draft) if isinstance(event, on.Failed) and self._journal.journal != before else event

    patch.setattr(DriverShell, "_append", broken)


# ---- deciding and publishing -----------------------------------------------------------------------------------------


def _rows_are_published_before_they_are_decided(patch: pytest.MonkeyPatch) -> None:
    decide = DriverMachine._decide

    def broken(self: DriverMachine, computed: on.Computed) -> Step:
        step = decide(self, computed)
        assert isinstance(step.effect, do.Append)
        assert isinstance(step.effect.draft, CheckpointRecord)
        return Step(do.Publish(step.effect.draft))

    patch.setattr(DriverMachine, "_decide", broken)


def _nobody_records_that_an_epoch_is_committed(patch: pytest.MonkeyPatch) -> None:
    _instead(
        patch,
        lambda self, event, handle: self._on_committed() if isinstance(event, on.Published) else handle(self, event),
    )


def _what_is_decided_is_not_published_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DriverMachine, "_uncommitted", property(lambda self: False, _ignored), raising=False)


def _staged_rows_go_before_the_record_that_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    published: dict[DriverMachine, on.Event] = {}

    def broken(self: DriverMachine, event: on.Event, handle: Handle) -> Step:
        if isinstance(event, on.Published):
            published[self] = event
            return Step(do.Sweep(staged=True))
        if isinstance(event, on.Swept) and self in published:
            return handle(self, published.pop(self))
        return handle(self, event)

    _instead(patch, broken)


def _rows_are_published_that_are_to_stay_staged(patch: pytest.MonkeyPatch) -> None:
    init = DriverMachine.__init__
    patch.setattr(DriverMachine, "__init__", lambda self, config: init(self, replace(config, publish=True)))


def _a_failure_is_tried_again_from_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DriverMachine, "_on_woken", lambda self, *, asked: self._next_epoch())


def _an_epoch_is_computed_from_where_the_job_began(patch: pytest.MonkeyPatch) -> None:
    compute = DriverMachine._compute

    def broken(self: DriverMachine, work: object) -> Step:
        step = compute(self, work)  # type: ignore[arg-type]  # passed on
        assert isinstance(step.effect, do.Compute)
        return Step(do.Compute(replace(step.effect.epoch, before=self._config.begin)))

    patch.setattr(DriverMachine, "_compute", broken)


# ---- what is deleted, and what is left -------------------------------------------------------------------------------


def _state_of_the_newest_checkpoint_is_a_leftover(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headrace.spark.driver.driver_shell.own_files", lambda manifest: set())


def _staged_rows_that_are_decided_are_a_leftover(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headrace.spark.driver.driver_shell.staged_files", lambda manifest: ())


def _staged_rows_of_committed_epochs_stay(patch: pytest.MonkeyPatch) -> None:
    """As they did before, where a driver died between `committed` and its tidying."""
    patch.setattr(
        "headrace.spark.driver.driver_shell.own_files",
        lambda manifest: (
            journal.own_files(manifest)
            | {part["path"] for item in manifest.committables for part in item.payload["staged"]}
        ),
    )


def _a_decided_savepoint_is_a_leftover(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DriverMachine, "_unfinished", property(lambda self: None, _ignored), raising=False)


def _nobody_cleans_up(patch: pytest.MonkeyPatch) -> None:
    def broken(self: DriverMachine, event: on.Event, handle: Handle) -> Step:
        if isinstance(event, on.RecordWritten) and isinstance(event.record, AttemptRecord):
            return self._settle()
        return handle(self, event)

    _instead(patch, broken)


def _files_that_are_needed_are_pruned(patch: pytest.MonkeyPatch) -> None:
    prunable = Journal.prunable

    def broken(self: Journal, retained: int) -> Prunable:
        gone = prunable(self, retained)
        named = sorted(path for each in self.checkpoints for path in journal.own_files(each.manifest))
        return replace(gone, files=(*gone.files, *named[-1:]))

    patch.setattr(Journal, "prunable", broken)


def _strays_stay_in_a_savepoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headrace.spark.driver.driver_shell.remove_strays", lambda savepoint, states: None)


# ---- the end ---------------------------------------------------------------------------------------------------------


def _an_end_counts_before_its_record(patch: pytest.MonkeyPatch) -> None:
    """As drivers that followed did before."""
    record_end, on_woken = DriverMachine._record_end, DriverMachine._on_woken

    def early(self: DriverMachine) -> Step:
        step = record_end(self)
        assert isinstance(step.effect, do.Append)
        self._finished = step.effect.draft  # type: ignore[assignment]  # the record of the end
        return step

    def broken(self: DriverMachine, *, asked: bool) -> Step:
        return on_woken(self, asked=asked) if self._finished is None else self._end()

    patch.setattr(DriverMachine, "_record_end", early)
    patch.setattr(DriverMachine, "_on_woken", broken)


def _an_end_is_overlooked(patch: pytest.MonkeyPatch) -> None:
    on_journal = DriverMachine._on_journal

    def broken(self: DriverMachine, read: Journal, found: Resolution) -> Step:
        return on_journal(self, read, replace(found, finished=None))

    patch.setattr(DriverMachine, "_on_journal", broken)


def _a_job_that_was_given_up_counts_as_finished(patch: pytest.MonkeyPatch) -> None:
    """As it did before, for a driver that was about to try again."""

    def broken(self: DriverMachine, event: on.Event, handle: Handle) -> Step:
        if isinstance(event, on.JournalRead) and event.found.finished is not None:
            self._finished = event.found.finished
            return self._end()
        return handle(self, event)

    _instead(patch, broken)


def _a_savepoint_is_handed_out_without_its_manifest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DriverMachine, "_finish", lambda self: Step(do.Sweep(self._config.publish)))


def _who_asks_to_stop_is_not_answered(patch: pytest.MonkeyPatch) -> None:
    on_woken = DriverMachine._on_woken
    patch.setattr(DriverMachine, "_on_woken", lambda self, *, asked: on_woken(self, asked=False))


def _what_nobody_foresaw_has_no_event(patch: pytest.MonkeyPatch) -> None:
    def broken(self: DriverShell, effect: do.Performed) -> on.Event:
        try:
            return self._performed(effect)
        except HeadraceError as error:
            return on.Failed(error)

    patch.setattr(DriverShell, "perform", broken)


BREAKS: list[tuple[Breaks, int]] = [
    (_a_driver_deletes_before_it_owns, 0),
    (_a_driver_deletes_all_that_its_journal_does_not_name, 40),
    (_a_driver_that_is_replaced_deletes_what_it_has_made, 0),
    (_others_records_do_not_matter, 0),
    (_nobody_looks_above_what_was_put, 90),
    (_an_earlier_put_counts_as_this_one, 490),
    (_rows_are_published_before_they_are_decided, 0),
    (_nobody_records_that_an_epoch_is_committed, 0),
    (_what_is_decided_is_not_published_first, 0),
    (_staged_rows_go_before_the_record_that_they_are_committed, 0),
    (_rows_are_published_that_are_to_stay_staged, 0),
    (_a_failure_is_tried_again_from_memory, 0),
    (_an_epoch_is_computed_from_where_the_job_began, 0),
    (_state_of_the_newest_checkpoint_is_a_leftover, 0),
    (_staged_rows_that_are_decided_are_a_leftover, 0),
    (_staged_rows_of_committed_epochs_stay, 0),
    (_a_decided_savepoint_is_a_leftover, 150),
    (_nobody_cleans_up, 0),
    (_files_that_are_needed_are_pruned, 0),
    (_strays_stay_in_a_savepoint, 170),
    (_an_end_counts_before_its_record, 360),
    (_an_end_is_overlooked, 0),
    (_a_job_that_was_given_up_counts_as_finished, 20),
    (_a_savepoint_is_handed_out_without_its_manifest, 0),
    (_who_asks_to_stop_is_not_answered, 0),
    (_what_nobody_foresaw_has_no_event, 0),
]
"""What is broken, and from which seed on it is looked for: some take many seeds to show."""


@each_of(BREAKS)
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    require_found(play, first, SEEDS_MAX)
