"""A slot's epochs: what is uploaded next, and which epochs are complete, declined or forgotten."""

from __future__ import annotations

from headrace.checkpoint.manifest import SubtaskDocument
from headrace.worker.slot.attempt.epochs import CLOSED_MAX, EPOCHS_MAX, SlotEpochs, Upload


def document(task: str) -> SubtaskDocument:
    return SubtaskDocument(task=task, subtask=1, states=())


def test_an_epoch_is_complete_when_every_subtask_is_in_storage() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(2)
    epochs.order(1, "", 100)
    epochs.snapshotted(1, "b's", 105)
    epochs.snapshotted(1, "a's", 110)
    assert epochs.take() == Upload(1, "", "b's")
    assert epochs.take() == Upload(1, "", "a's")
    assert epochs.take() is None
    assert epochs.uploaded(1, document("b"), 20) is None
    complete = epochs.uploaded(1, document("a"), 30)
    assert complete is not None
    assert (complete.number, complete.begun_ms, complete.bytes) == (1, 100, 50)
    assert complete.documents == (document("a"), document("b"))


def test_a_snapshot_that_overtakes_the_order_waits_for_it() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(1)
    epochs.snapshotted(1, "early", 90)
    assert epochs.take() is None
    epochs.order(1, "folder", 100)
    assert epochs.take() == Upload(1, "folder", "early")


def test_lower_epochs_come_first() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(1)
    for epoch in (2, 1):
        epochs.order(epoch, "", 0)
        epochs.snapshotted(epoch, f"of {epoch}", 0)
    assert epochs.take() == Upload(1, "", "of 1")


def test_an_epoch_that_was_given_up_is_neither_uploaded_nor_complete() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(2)
    epochs.order(1, "", 0)
    epochs.snapshotted(1, "a's", 0)
    upload = epochs.take()
    epochs.give_up(1)
    assert upload is not None
    assert epochs.uploaded(1, document("a"), 1) is None
    epochs.snapshotted(1, "b's", 0)
    epochs.order(1, "", 0)
    assert epochs.take() is None


def test_an_epoch_is_declined_once() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(2)
    epochs.order(1, "", 0)
    assert epochs.refused(1)
    assert not epochs.refused(1)
    epochs.snapshotted(1, "late", 0)
    assert epochs.take() is None


def test_epochs_that_nobody_orders_do_not_pile_up() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(1)
    overdue = [epochs.snapshotted(epoch, "s", 0) for epoch in range(EPOCHS_MAX + 2)]
    assert overdue == [*([[]] * EPOCHS_MAX), [0], [1]]


def test_only_so_many_closed_epochs_are_remembered() -> None:
    epochs: SlotEpochs[str] = SlotEpochs(1)
    for epoch in range(CLOSED_MAX + 1):
        epochs.give_up(epoch)
    for epoch in (0, 1):
        epochs.order(epoch, "", 0)
        epochs.snapshotted(epoch, "late", 0)
    assert epochs.take() == Upload(0, "", "late")
    assert epochs.take() is None
