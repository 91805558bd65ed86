"""The simulation finds what is wrong: each of these breaks one rule, and some seed soon tells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.checkpoint.job_folder import orphans
from headrace.checkpoint.journal import journal
from headrace.checkpoint.journal.journal import Journal, Prunable, PutResult, Written
from headrace.checkpoint.journal.records import CheckpointRecord, Record
from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.checkpoint.paths import state_file
from headrace.connect.sink import Committable
from headrace.coordinator.job import journaling
from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.effects import Commit, Fence
from headrace.coordinator.job.events import Event, Fenced, JournalRead
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.states import scheduling
from headrace.coordinator.job.states.running import Running
from headrace.coordinator.job.states.scheduling import Scheduling, Step
from headrace.coordinator.job.states.shared import live_epochs
from headrace.coordinator.job.states.shared.leaving import Leaving
from headrace.coordinator.job.states.shared.live_epochs import Live
from headrace.coordinator.job.states.stopping import Stopping
from headrace.coordinator.job.states.transitions import STAY, Next
from headrace.execution.epochs import Pending
from headrace.rpc.messages import CancelSlot, Deployed, InputEnded
from headrace.worker.slot.attempt import machine
from headrace.worker.slot.attempt.effects import CancelSubtasks, GiveUpEpoch, Send, Warn
from headrace.worker.slot.attempt.epochs import SlotEpochs
from headrace.worker.slot.attempt.events import Connected
from headrace.worker.slot.attempt.events import Event as SlotEvent
from headrace.worker.slot.attempt.machine import AttemptMachine
from headrace_connectors.kafka.clients.transaction_names import TransactionName, names_of
from headrace_connectors.kafka.sink.transactional_writer import TransactionLanes
from headrace_connectors.kafka.transactions import rules
from headrace_connectors.kafka.transactions.rules import Fate
from sim.finds import Breaks, each_of, require_found
from sim.run import play

SEEDS_MAX = 150
Items = tuple[CommittableDocument, ...]


def _others_records_do_not_matter(patch: pytest.MonkeyPatch) -> None:
    def on_put(self: Journal, put: Record, found: Record | None, higher: object) -> PutResult:
        return Written(put, self._with(put))

    patch.setattr(Journal, "on_put", on_put)


def _nobody_looks_above_what_was_put(patch: pytest.MonkeyPatch) -> None:
    on_put = Journal.on_put
    patch.setattr(Journal, "on_put", lambda self, put, found, higher: on_put(self, put, found, ()))


def _an_effect_that_raises_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("sim.processes.coordinator.failure_event", lambda effect, failure: None)


def _what_was_decided_is_not_committed_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "uncommitted", None)


def _an_earlier_checkpoint_is_restored(patch: pytest.MonkeyPatch) -> None:
    read = journaling.journal_read

    def broken(ticket: int, found: Journal, damaged: Any = None) -> JournalRead:
        checkpoints = found.checkpoints
        return replace(read(ticket, found, damaged), restore=checkpoints[0].manifest if checkpoints else None)

    patch.setattr("sim.processes.coordinator.journal_read", broken)


def _epochs_begin_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "epoch", 0)


def _committed_is_said_too_early(patch: pytest.MonkeyPatch) -> None:
    on_record = Live._on_record

    def broken(self: Live, job: Job, now_ms: int) -> Next:
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


def _of_earlier_attempts(manifest: Manifest, attempt: int) -> set[str]:
    files = {path: state_file(path) for path in journal.own_files(manifest)}
    return {path for path, about in files.items() if about is not None and about.attempt < attempt}


def _what_earlier_attempts_wrote_is_orphaned(patch: pytest.MonkeyPatch) -> None:
    """Right where an attempt names files of its own only."""
    patch.setattr(
        orphans,
        "own_files",
        lambda manifest: journal.own_files(manifest) - _of_earlier_attempts(manifest, manifest.attempt),
    )


def _what_earlier_attempts_wrote_goes_with_their_checkpoints(patch: pytest.MonkeyPatch) -> None:
    prunable = Journal.prunable

    def broken(self: Journal, retained: int) -> Prunable:
        gone = prunable(self, retained)
        pruned = [each for each in self.records if each.number in gone.numbers and isinstance(each, CheckpointRecord)]
        files = {path for each in pruned for path in _of_earlier_attempts(each.manifest, self.attempt)}
        return replace(gone, files=tuple(sorted({*gone.files, *files})))

    patch.setattr(Journal, "prunable", broken)


def _a_stop_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "stopping", None)


def _time_is_up_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Running, "due_ms", lambda self, job: self.attempt.due_ms(job, periodic=True))


def _whoever_waits_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Running, "drop_savepoints", lambda self, job, failure: None)


def _a_savepoint_in_flight_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Stopping, job: Job, now_ms: int) -> Next:
        pending: Pending = self.attempt.epochs.done(now_ms)
        return self.after(job, pending, now_ms)

    patch.setattr(Stopping, "_done", broken)


def _new_partitions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Attempt, "assign_found", lambda self, job, source, found: None)


# ---- exactly-once ----------------------------------------------------------------------------------------------------


def _names_are_fenced_before_the_attempts_record(patch: pytest.MonkeyPatch) -> None:
    record, on = Scheduling._record_attempt, Scheduling.on

    def fence_first(self: Scheduling, job: Job) -> None:
        if job.open_names:
            self._step = Step.FENCE
            job.do(Fence(job.attempt + 1, dict(job.open_names)))
        else:
            record(self, job)

    def broken(self: Scheduling, job: Job, event: Event, now_ms: int) -> Next:
        if isinstance(event, Fenced) and self._step is Step.FENCE and event.attempt == job.attempt + 1:
            record(self, job)
            return STAY
        return on(self, job, event, now_ms)

    patch.setattr(Scheduling, "_record_attempt", fence_first)
    patch.setattr(Scheduling, "on", broken)


def _earlier_names_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "transactions", property(lambda self: {}))


def _only_the_newest_attempts_names_are_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "transactions", property(lambda self: getattr(self.newest_attempt, "transactions", {})))


def _manifests_name_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_epochs, "with_successors", lambda before, items: {})


def _output_is_committed_before_it_is_decided(patch: pytest.MonkeyPatch) -> None:
    record = Live._record

    def broken(self: Live, job: Job, pending: Pending, items: Items, now_ms: int) -> Next:
        if items:
            job.do(Commit(pending.epoch, items))
        return record(self, job, pending, items, now_ms)

    patch.setattr(Live, "_record", broken)


def _output_is_not_described(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Live, job: Job, pending: Pending, now_ms: int) -> Next:
        return self._record(job, pending, pending.committables, now_ms)

    patch.setattr(Live, "_on_acked", broken)


def _a_name_is_used_again_at_once(patch: pytest.MonkeyPatch) -> None:
    prepared = TransactionLanes.prepared

    def broken(self: TransactionLanes, item: Committable) -> None:
        prepared(self, item)
        self._free.appendleft(item.name)

    patch.setattr(TransactionLanes, "prepared", broken)


def _what_was_given_up_does_not_ride_along(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionLanes, "pending", property(lambda self: tuple(self._prepared[-1:])))


def _all_attempts_have_the_same_names(patch: pytest.MonkeyPatch) -> None:
    def broken(job: str, sink: str, attempt: int, subtask: int, lanes: int) -> tuple[TransactionName, ...]:
        return names_of(job, sink, 0, subtask, lanes)

    patch.setattr("sim.names.names_of", broken)


def _a_sweep_ends_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "swept", lambda found, job, sink, attempt: sorted(found))


def _what_expired_counts_as_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "fate", lambda identity, described: Fate.COMMITTED)


def _lost_output_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    on_commit = Scheduling._on_commit
    patch.setattr(Scheduling, "_on_commit", lambda self, job, lost: on_commit(self, job, ()))


def _output_lost_in_part_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduling, "all_lost", lambda manifest, lost: True)


def _lost_output_stays_in_the_totals(patch: pytest.MonkeyPatch) -> None:
    go_back = Job.go_back

    def broken(self: Job, before: Manifest | None) -> None:
        output = self.output
        go_back(self, before)
        self.output = output

    patch.setattr(Job, "go_back", broken)


def _the_end_fences_before_its_record(patch: pytest.MonkeyPatch) -> None:
    write = Leaving._write

    def broken(self: Leaving, job: Job) -> Next:
        if job.hosted and job.open_names:
            job.do(Fence(job.attempt, dict(job.open_names)))
        return write(self, job)

    patch.setattr(Leaving, "_write", broken)


def _the_end_fences_what_is_decided(patch: pytest.MonkeyPatch) -> None:
    on_ended = Leaving._on_ended

    def broken(self: Leaving, job: Job, now_ms: int) -> Next:
        self._decided = None
        return on_ended(self, job, now_ms)

    patch.setattr(Leaving, "_on_ended", broken)


# ---- slots -----------------------------------------------------------------------------------------------------------


def _input_ends_with_the_first_task(patch: pytest.MonkeyPatch) -> None:
    def broken(self: AttemptMachine, task: str) -> None:
        self._ended.add(task)
        self._report()
        self._do(Send(InputEnded(self._job, self._attempt)))

    patch.setattr(AttemptMachine, "_on_ended", broken)


def _a_failed_slot_says_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptMachine, "_fail", lambda self, failure: self._cancel())


def _a_cancel_hides_the_failure_before_it(patch: pytest.MonkeyPatch) -> None:
    on_leaving = AttemptMachine._on_leaving

    def broken(self: AttemptMachine, event: SlotEvent, now_ms: int) -> None:
        if isinstance(event, CancelSlot):
            self._failure = None
        on_leaving(self, event, now_ms)

    patch.setattr(AttemptMachine, "_on_leaving", broken)


def _the_last_word_waits_for_no_thread(patch: pytest.MonkeyPatch) -> None:
    def broken(self: AttemptMachine) -> None:
        self._do(CancelSubtasks())
        self._leave()

    patch.setattr(AttemptMachine, "_cancel", broken)


def _a_slot_is_deployed_before_it_is_open(patch: pytest.MonkeyPatch) -> None:
    on_opening = AttemptMachine._on_opening

    def broken(self: AttemptMachine, event: SlotEvent, now_ms: int) -> None:
        if isinstance(event, Connected):
            self._do(Send(Deployed(self._job, self._attempt)))
        on_opening(self, event, now_ms)

    patch.setattr(AttemptMachine, "_on_opening", broken)


def _a_cancel_waits_until_the_slot_is_open(patch: pytest.MonkeyPatch) -> None:
    on_opening = AttemptMachine._on_opening

    def broken(self: AttemptMachine, event: SlotEvent, now_ms: int) -> None:
        if isinstance(event, CancelSlot):
            self._deferred.append(event)
        else:
            on_opening(self, event, now_ms)

    patch.setattr(AttemptMachine, "_on_opening", broken)


def _epochs_are_acknowledged_without_their_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttemptMachine, "_report", lambda self: None)


def _epochs_are_not_ordered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "OrderEpoch", lambda epoch, savepoint: GiveUpEpoch(epoch))


def _names_are_never_free_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "FreeNames", lambda epoch, successors: Warn("names stay taken"))


def _an_epoch_is_acknowledged_without_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    init = SlotEpochs.__init__
    patch.setattr(SlotEpochs, "__init__", lambda self, subtasks: init(self, subtasks - 1))


BREAKS: list[tuple[Breaks, int]] = [
    (_others_records_do_not_matter, 35),
    (_what_was_decided_is_not_committed_first, 0),
    (_an_earlier_checkpoint_is_restored, 0),
    (_epochs_begin_anew, 0),
    (_committed_is_said_too_early, 0),
    (_files_that_are_needed_are_pruned, 0),
    (_what_earlier_attempts_wrote_is_orphaned, 30),
    (_what_earlier_attempts_wrote_goes_with_their_checkpoints, 10),
    (_a_stop_is_forgotten, 98),
    (_time_is_up_for_ever, 122),
    (_whoever_waits_is_forgotten, 108),
    (_a_savepoint_in_flight_is_forgotten, 36),
    (_new_partitions_are_forgotten, 97),
    # it takes a long sleep and many records
    (_nobody_looks_above_what_was_put, 90),
    (_names_are_fenced_before_the_attempts_record, 0),
    (_earlier_names_are_not_fenced, 0),
    (_only_the_newest_attempts_names_are_fenced, 0),
    (_manifests_name_nothing, 170),
    (_output_is_committed_before_it_is_decided, 0),
    (_output_is_not_described, 0),
    (_a_name_is_used_again_at_once, 0),
    (_what_was_given_up_does_not_ride_along, 40),
    (_all_attempts_have_the_same_names, 0),
    (_a_sweep_ends_everything, 0),
    (_what_expired_counts_as_committed, 120),
    (_lost_output_is_passed_over, 120),
    (_output_lost_in_part_counts_as_lost, 120),
    (_lost_output_stays_in_the_totals, 120),
    (_the_end_fences_before_its_record, 115),
    (_the_end_fences_what_is_decided, 2180),
    (_input_ends_with_the_first_task, 0),
    (_a_failed_slot_says_left, 10),
    (_a_cancel_hides_the_failure_before_it, 210),
    (_the_last_word_waits_for_no_thread, 0),
    (_a_slot_is_deployed_before_it_is_open, 0),
    (_a_cancel_waits_until_the_slot_is_open, 45),
    (_epochs_are_acknowledged_without_their_counts, 0),
    (_epochs_are_not_ordered, 0),
    (_names_are_never_free_again, 450),
    (_an_epoch_is_acknowledged_without_a_snapshot, 0),
    (_an_effect_that_raises_is_forgotten, 0),
]
"""What is broken, and from which seed on it is looked for: some take many seeds to show."""


@each_of(BREAKS)
def test_a_broken_rule_is_found(breaks: Breaks, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    require_found(play, first, SEEDS_MAX)
