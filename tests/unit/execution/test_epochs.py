"""The epoch in flight: when one is due, when it is complete, when it is given up, and what that counts for."""

from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import CommittableDocument, SubtaskDocument
from headrace.execution.epochs import Epochs, Purpose, Stage
from headrace.spec.settings import Checkpoint


def settings(**about: object) -> Checkpoint:
    return Checkpoint.model_validate({"interval": "10s", "timeout": "30s", **about})


def epochs(**about: object) -> Epochs:
    return Epochs(settings(**about), slots=2, last_epoch=4, now_ms=1_000)


def document(index: int) -> SubtaskDocument:
    return SubtaskDocument(task="count", subtask=index)


def prepared(index: int, *epochs: int) -> SubtaskDocument:
    """What a writer prepared at the barriers of these epochs and does not know to be committed."""
    items = tuple(CommittableDocument(sink="out", subtask=index, epoch=epoch, payload={}) for epoch in epochs)
    return SubtaskDocument(task="count", subtask=index, committables=items)


def test_epochs_go_on_from_the_last_one() -> None:
    assert epochs().begin(Purpose.PERIODIC, 2_000).epoch == 5


def test_an_epoch_is_complete_when_every_slot_has_answered_once() -> None:
    mine = epochs()
    mine.begin(Purpose.PERIODIC, 2_000)
    assert mine.ack(0, 5, (document(0),)) is None
    assert mine.ack(0, 5, (document(0),)) is None
    assert mine.ack(1, 4, (document(1),)) is None, "late words of an older epoch"
    pending = mine.ack(1, 5, (document(1),))
    assert pending is not None
    assert [each.subtask for each in pending.documents] == [0, 1]


def test_one_at_a_time() -> None:
    mine = epochs()
    mine.begin(Purpose.PERIODIC, 2_000)
    assert mine.periodic_due_ms is None
    with pytest.raises(AssertionError, match="one epoch at a time"):
        mine.begin(Purpose.SAVEPOINT, 2_000)


def test_what_is_committed_is_not_committed_again_though_a_writer_has_not_heard_of_it_yet() -> None:
    mine = epochs(tolerable_failures=1)
    mine.begin(Purpose.PERIODIC, 2_000)
    mine.ack(0, 5, (prepared(0, 5),))
    mine.give_up(3_000)
    pending = mine.begin(Purpose.PERIODIC, 4_000)
    mine.ack(0, 6, (prepared(0, 5, 6),))
    mine.ack(1, 6, (prepared(1, 6),))
    assert [(each.subtask, each.epoch) for each in pending.committables] == [(0, 5), (0, 6), (1, 6)]
    mine.done(5_000)
    pending = mine.begin(Purpose.STOP, 5_000)
    mine.ack(0, 7, (prepared(0, 7),))
    mine.ack(1, 7, (prepared(1, 6, 7),))
    assert [(each.subtask, each.epoch) for each in pending.committables] == [(0, 7), (1, 7)]


def test_the_interval_runs_from_barrier_to_barrier() -> None:
    mine = epochs()
    assert mine.periodic_due_ms == 11_000
    assert not mine.periodic_due(10_999)
    assert mine.periodic_due(11_000)
    mine.begin(Purpose.PERIODIC, 12_000)
    mine.done(13_000)
    assert mine.periodic_due_ms == 22_000


def test_a_pause_is_kept_after_a_long_epoch_and_after_one_that_was_given_up() -> None:
    mine = epochs(min_pause="5s", tolerable_failures=1)
    mine.begin(Purpose.PERIODIC, 11_000)
    mine.done(20_000)
    assert mine.periodic_due_ms == 25_000
    mine.begin(Purpose.PERIODIC, 25_000)
    mine.give_up(34_000)
    assert mine.periodic_due_ms == 39_000


def test_without_an_interval_nothing_is_due() -> None:
    mine = epochs(interval="none")
    assert mine.periodic_due_ms is None
    mine.begin(Purpose.SAVEPOINT, 2_000)
    mine.done(3_000)
    assert not mine.periodic_due(10**9)


def test_only_slots_are_waited_for_with_a_limit() -> None:
    mine = epochs()
    pending = mine.begin(Purpose.PERIODIC, 11_000)
    assert mine.timeout_due_ms == 41_000
    assert not mine.timed_out(40_999)
    assert mine.timed_out(41_000)
    pending.stage = Stage.RECORDING
    assert mine.timeout_due_ms is None
    assert not mine.timed_out(10**9)


def test_failures_in_a_row_are_counted_and_a_success_forgives_them() -> None:
    mine = epochs(tolerable_failures=1)
    for tolerated in (True, False):
        mine.begin(Purpose.PERIODIC, 11_000)
        assert mine.give_up(12_000)[1] is not tolerated
    mine.begin(Purpose.PERIODIC, 21_000)
    mine.done(22_000)
    mine.begin(Purpose.PERIODIC, 31_000)
    assert mine.give_up(32_000)[1] is False


@pytest.mark.parametrize(
    ("purpose", "fails"),
    [(Purpose.SAVEPOINT, False), (Purpose.STOP, True), (Purpose.RESCALE, True), (Purpose.FINAL, True)],
)
def test_what_a_failure_means_depends_on_what_it_was_for(purpose: Purpose, fails: bool) -> None:
    mine = epochs(tolerable_failures=5)
    mine.begin(purpose, 11_000)
    assert mine.give_up(12_000)[1] is fails


@pytest.mark.parametrize(("interval", "at_once"), [("10s", False), ("none", True)])
def test_savepoints_that_fail_leave_names_for_periodic_checkpoints(interval: str, at_once: bool) -> None:
    mine = epochs(interval=interval, tolerable_failures=1)
    assert mine.takes_savepoints
    mine.begin(Purpose.SAVEPOINT, 2_000)
    mine.give_up(3_000)
    assert mine.takes_savepoints is at_once
    mine.begin(Purpose.PERIODIC, 12_000)
    mine.give_up(13_000)
    assert mine.takes_savepoints is at_once
    mine.begin(Purpose.PERIODIC, 22_000)
    mine.done(23_000)
    assert mine.takes_savepoints


def test_what_is_decided_cannot_be_given_up() -> None:
    mine = epochs()
    mine.begin(Purpose.PERIODIC, 11_000).stage = Stage.COMMITTING
    with pytest.raises(AssertionError, match="decided"):
        mine.give_up(12_000)
