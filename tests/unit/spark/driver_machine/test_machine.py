"""The machine of drivers, event by event: what it wants done, in which order, and when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import AttemptRecord, CheckpointRecord, CommittedRecord, FinishedRecord, Record
from headrace.checkpoint.journal.resolve import resolve
from headrace.checkpoint.manifest import Manifest, SplitDocument
from headrace.core.errors import ExternalError, UserError
from headrace.core.source_state import SourceState, SplitState
from headrace.spark.driver_machine import effects as do
from headrace.spark.driver_machine import events as on
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.epoch import Epoch, Splits, Work
from headrace.spark.driver_machine.machine import DriverMachine, GivenUpError, ReplacedError

REPLAY = DriverConfig("j-1", "memory://j-1", 2, "hash", "0abc", bounded=True)
FOLLOW = replace(REPLAY, bounded=False, failures_max=1)
SPLITS: Splits = {"rows": (SplitDocument(topic="t", partition=0, start=0, stop=9),)}
AWAY = ExternalError("storage is away", retry=True)


def manifest(epoch: int, position: int, *, final: bool = False) -> Manifest:
    """Of an epoch that was read up to a position."""
    return Manifest(
        kind="checkpoint",
        job="j-1",
        pipeline="p",
        epoch=epoch,
        attempt=1,
        created_at_ms=0,
        version="1",
        plan_hash="hash",
        max_parallelism=128,
        parallelism={},
        nodes={},
        states=(),
        sources={"rows": SourceState((SplitState("t", 0, position),))},
        splits=dict(SPLITS),
        final=final,
    )


def attempt(number: int) -> AttemptRecord:
    return AttemptRecord(at_ms=0, attempt=number, parallelism=2, plan_hash="hash", splits=dict(SPLITS))


def read(*records: Record) -> on.JournalRead:
    """A journal with these records."""
    journal = Journal()
    for draft in records:
        put = journal.next(draft, "w")
        journal = replace(journal, records=(*journal.records, put))
    return on.JournalRead(journal, resolve(journal))


def work(end: int, *, over: bool = False) -> on.Discovered:
    """Rows up to `end`."""
    ranges = {"rows": (SPLITS["rows"][0].model_copy(update={"stop": end}),)}
    return on.Discovered(Work(SPLITS, ranges, {}, frozenset(["rows"] if over else [])))


def effects(machine: DriverMachine, events: Sequence[on.Event | None]) -> list[do.Effect]:
    """What the machine wants done. None: the record that it wants to append is written."""
    step = machine.begin()
    wanted = [step.effect]
    for event in events:
        step = machine.handle(_written(step.effect) if event is None else event)
        wanted.append(step.effect)
    return wanted


def _written(effect: do.Effect) -> on.Event:
    assert isinstance(effect, do.Append)
    return on.RecordWritten(effect.draft)


def names(wanted: Sequence[do.Effect]) -> str:
    """Effects by name; records by kind."""
    return " ".join(each.draft.kind if isinstance(each, do.Append) else type(each).__name__ for each in wanted)


def computed(epoch: int, position: int, *, final: bool = False) -> on.Computed:
    return on.Computed(manifest(epoch, position, final=final), (), 7)


BEGUN: list[on.Event | None] = [None, on.LeftoversRemoved()]


def test_a_replay() -> None:
    events = [read(), on.Resolved(SPLITS), *BEGUN, computed(1, 9, final=True), None]
    events += [on.Published(), None, on.Swept(), None]
    assert names(effects(DriverMachine(REPLAY), events)) == (
        "ReadJournal Resolve attempt RemoveLeftovers Compute checkpoint Publish committed Sweep finished End"
    )


def test_a_replay_with_a_savepoint_that_stays_staged() -> None:
    config = replace(REPLAY, savepoint="memory://saved", publish=False)
    events = [read(), on.Resolved(SPLITS), *BEGUN, computed(1, 9, final=True), None]
    events += [on.SavepointWritten(), on.Swept()]
    wanted = effects(DriverMachine(config), events)
    assert names(wanted) == (
        "ReadJournal Resolve attempt RemoveLeftovers Compute checkpoint WriteSavepoint Sweep finished"
    )
    target = "memory://saved/savepoint-j-1-1-1x0abc"
    compute, save, sweep = wanted[4], wanted[6], wanted[7]
    assert isinstance(compute, do.Compute)
    assert (compute.epoch.states, compute.epoch.hand_over, compute.epoch.deltas) == (target, True, False)
    assert isinstance(save, do.WriteSavepoint)
    assert save.folder == target
    assert sweep == do.Sweep(staged=False)


def test_a_replay_that_is_decided_is_published_without_an_attempt() -> None:
    decided: list[Record] = [attempt(1), CheckpointRecord(at_ms=0, manifest=manifest(1, 9, final=True))]
    events: list[on.Event | None] = [read(*decided), on.Published(), None, on.Swept(), None]
    assert names(effects(DriverMachine(REPLAY), events)) == "ReadJournal Publish committed Sweep finished End"
    committed: list[Record] = [*decided, CommittedRecord(at_ms=0, epoch=1)]
    assert names(effects(DriverMachine(REPLAY), [read(*committed)])) == "ReadJournal Sweep"
    finished: list[Record] = [*committed, FinishedRecord(at_ms=0, state="FINISHED")]
    assert names(effects(DriverMachine(REPLAY), [read(*finished)])) == "ReadJournal End"


def test_following_to_the_end_of_the_sources() -> None:
    events = [read(), on.Resolved(SPLITS), *BEGUN, work(4), computed(1, 4), None, on.Published(), None, on.Tidied()]
    events += [on.Woken(asked=False), on.Discovered(None), on.Woken(asked=False), work(9, over=True)]
    events += [computed(2, 9, final=True), None, on.Published(), None, on.Tidied(), on.Swept(), None]
    wanted = effects(DriverMachine(FOLLOW), events)
    assert names(wanted) == (
        "ReadJournal Resolve attempt RemoveLeftovers Discover Compute checkpoint Publish committed Tidy Wait "
        "Discover Wait Discover Compute checkpoint Publish committed Tidy Sweep finished End"
    )
    first, last, end = wanted[5], wanted[14], wanted[-1]
    assert isinstance(first, do.Compute)
    assert (first.epoch.deltas, first.epoch.hand_over, first.epoch.last) == (True, True, False)
    assert isinstance(last, do.Compute)
    assert (last.epoch.deltas, last.epoch.hand_over, last.epoch.last) == (True, False, True)
    assert isinstance(end, do.End)
    assert (end.increments, end.epoch) == (2, 2)


def test_what_is_decided_is_published_before_the_next_look() -> None:
    decided: list[Record] = [attempt(1), CheckpointRecord(at_ms=0, manifest=manifest(1, 4))]
    events = [read(*decided), *BEGUN, on.Published(), None, on.Tidied()]
    wanted = effects(DriverMachine(FOLLOW), events)
    assert names(wanted) == "ReadJournal attempt RemoveLeftovers Publish committed Tidy Discover"
    append = wanted[1]
    assert isinstance(append, do.Append)
    assert isinstance(append.draft, AttemptRecord)
    assert (append.draft.attempt, append.draft.restored_epoch) == (2, 1)


def test_asked_to_stop_with_a_savepoint_all_state_is_written_and_nothing_read() -> None:
    config = replace(FOLLOW, savepoint="memory://saved")
    events = [read(), on.Resolved(SPLITS), *BEGUN, work(4), computed(1, 4), None, on.Published(), None, on.Tidied()]
    events += [on.Woken(asked=True), computed(2, 4), None, on.Published(), None, on.Tidied()]
    wanted = effects(DriverMachine(config), events)
    assert names(wanted[-7:]) == "Wait Compute checkpoint Publish committed Tidy WriteSavepoint"
    compute = wanted[-6]
    assert isinstance(compute, do.Compute)
    assert compute.epoch == Epoch(
        number=2,
        attempt=1,
        ranges={"rows": (SPLITS["rows"][0].model_copy(update={"stop": 4}),)},
        before=compute.epoch.before,
        states="memory://saved/savepoint-j-1-2-1x0abc",
        hand_over=True,
        splits=SPLITS,
        last=False,
    )


def test_asked_to_stop_without_a_savepoint_it_ends() -> None:
    events = [read(), on.Resolved(SPLITS), *BEGUN, on.Discovered(None), on.Woken(asked=True)]
    wanted = effects(DriverMachine(FOLLOW), events)
    assert names(wanted[-2:]) == "Wait End"


def test_increments_are_counted() -> None:
    config = replace(FOLLOW, increments_max=1)
    events = [read(), on.Resolved(SPLITS), *BEGUN, work(4), computed(1, 4), None, on.Published(), None, on.Tidied()]
    end = effects(DriverMachine(config), events)[-1]
    assert isinstance(end, do.End)
    assert (end.increments, end.finished) == (1, None)


@pytest.mark.parametrize("config", [REPLAY, FOLLOW], ids=["replay", "follow"])
def test_a_driver_that_finds_anothers_record_fails_and_deletes_nothing(config: DriverConfig) -> None:
    begun: list[on.Event | None] = [read(), on.Resolved(SPLITS)]
    decided: list[on.Event | None] = [*begun, *BEGUN, computed(1, 9)]
    if not config.bounded:
        decided.insert(-1, work(9))
    for events, record in ((begun, "attempt"), (decided, "checkpoint")):
        wanted = effects(DriverMachine(config), [*events, on.Replaced(3)])
        assert names(wanted[-2:]) == f"{record} Fail"
        fail = wanted[-1]
        assert isinstance(fail, do.Fail)
        assert isinstance(fail.error, ReplacedError)


@pytest.mark.parametrize("config", [REPLAY, FOLLOW], ids=["replay", "follow"])
def test_a_job_that_was_given_up_is_not_finished(config: DriverConfig) -> None:
    decided = CheckpointRecord(at_ms=0, manifest=manifest(1, 9, final=True))
    wanted = effects(DriverMachine(config), [read(attempt(1), decided, FinishedRecord(at_ms=0, state="CANCELED"))])
    fail = wanted[-1]
    assert isinstance(fail, do.Fail)
    assert isinstance(fail.error, GivenUpError)


def test_a_failure_that_passes_is_tried_again_from_the_journal_so_often() -> None:
    begun: list[on.Event | None] = [read(), on.Resolved(SPLITS), *BEGUN]
    failed: list[on.Event | None] = [work(4), on.Failed(AWAY), on.Woken(asked=False)]
    wanted = effects(DriverMachine(FOLLOW), [*begun, *failed, read(attempt(1)), *BEGUN, work(4), on.Failed(AWAY)])
    assert names(wanted[6:]) == "Wait ReadJournal attempt RemoveLeftovers Discover Compute Fail"


@pytest.mark.parametrize("error", [UserError("no"), ExternalError("gone"), ValueError("unforeseen")])
def test_other_failures_end_it(error: Exception) -> None:
    wanted = effects(DriverMachine(FOLLOW), [read(), on.Resolved(SPLITS), *BEGUN, on.Failed(error)])
    assert wanted[-1] == do.Fail(error)


def test_a_driver_that_never_owned_the_job_fails_at_once() -> None:
    assert effects(DriverMachine(FOLLOW), [on.Failed(AWAY)])[-1] == do.Fail(AWAY)
    assert effects(DriverMachine(REPLAY), [read(), on.Resolved(SPLITS), *BEGUN, on.Failed(AWAY)])[-1] == do.Fail(AWAY)


def test_after_a_failure_nothing_is_remembered_of_what_was_to_be_decided() -> None:
    """The record of the epoch had come through: the epoch is published and not computed again."""
    decided: list[Record] = [attempt(1), CheckpointRecord(at_ms=0, manifest=manifest(1, 4))]
    events = [read(), on.Resolved(SPLITS), *BEGUN, work(4), computed(1, 4), on.Failed(AWAY), on.Woken(asked=False)]
    wanted = effects(DriverMachine(FOLLOW), [*events, read(*decided), *BEGUN])
    assert names(wanted[-3:]) == "attempt RemoveLeftovers Publish"
