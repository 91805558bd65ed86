"""When an epoch is durable."""

from headrace.connect.sink import Committable
from headrace.local.epochs import EpochTracker

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def committable(sink: str, epoch: int) -> Committable:
    return Committable(sink, 0, epoch, {})


def test_an_epoch_is_complete_once_every_sink_has_flushed_it() -> None:
    tracker = EpochTracker([A0, A1, B0])
    epoch = tracker.begin()
    tracker.flushed(A0, epoch, [committable("a", epoch)])
    tracker.flushed(A1, epoch, [])
    assert tracker.take_complete() is None
    tracker.flushed(B0, epoch, [])
    assert tracker.take_complete() == (epoch, [committable("a", epoch)])
    assert tracker.take_complete() is None
    assert not tracker.in_flight


def test_a_sink_that_ended_is_not_waited_for() -> None:
    tracker = EpochTracker([A0, B0])
    tracker.ended(A0, [committable("a", 0)])
    epoch = tracker.begin()
    tracker.flushed(B0, epoch, [])
    assert tracker.take_complete() == (epoch, [])
    assert tracker.take_last() == [committable("a", 0)]


def test_a_sink_that_ends_during_an_epoch_completes_it() -> None:
    tracker = EpochTracker([A0, B0])
    epoch = tracker.begin()
    tracker.flushed(A0, epoch, [])
    tracker.ended(B0, [])
    assert tracker.take_complete() == (epoch, [])
    assert tracker.begin() == epoch + 1
