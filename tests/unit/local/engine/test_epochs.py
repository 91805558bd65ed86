"""When an epoch is durable."""

from headrace.connect.sink import Committable
from headrace.local.engine.epochs import EpochTracker

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def committable(sink: str, epoch: int) -> Committable:
    return Committable(sink, 0, epoch, {})


def test_an_epoch_is_complete_once_its_barrier_has_passed_every_subtask() -> None:
    tracker = EpochTracker([A0, A1, B0])
    epoch = tracker.begin()
    assert tracker.waiting == {A0, A1, B0}
    tracker.snapshotted(A0, epoch, [committable("a", epoch)])
    tracker.snapshotted(A1, epoch, [])
    assert tracker.take_complete() is None
    assert tracker.waiting == {B0}
    tracker.snapshotted(B0, epoch, [])
    assert tracker.take_complete() == (epoch, [committable("a", epoch)])
    assert tracker.take_complete() is None
    assert not tracker.in_flight


def test_a_subtask_whose_input_has_ended_is_waited_for_as_well() -> None:
    tracker = EpochTracker([A0, B0])
    tracker.input_ended(A0)
    assert tracker.input_left == {B0}
    epoch = tracker.begin()
    tracker.snapshotted(B0, epoch, [])
    assert tracker.take_complete() is None
    tracker.snapshotted(A0, epoch, [])
    assert tracker.take_complete() == (epoch, [])


def test_the_next_epoch_begins_without_what_the_one_before_left() -> None:
    tracker = EpochTracker([A0])
    epoch = tracker.begin()
    tracker.snapshotted(A0, epoch, [committable("a", epoch)])
    assert tracker.take_complete() is not None
    assert tracker.begin() == epoch + 1
    tracker.snapshotted(A0, epoch + 1, [])
    assert tracker.take_complete() == (epoch + 1, [])
