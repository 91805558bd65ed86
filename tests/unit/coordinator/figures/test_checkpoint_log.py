"""The log of checkpoints follows what the machine requests, and what slots acknowledge."""

from __future__ import annotations

from headrace.checkpoint.journal.records import CheckpointRecord, CommittedRecord
from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.figures.checkpoint_log import CHECKPOINTS_MAX, ENDED, SLOWEST_MAX, CheckpointLog
from headrace.coordinator.job.effects import Effect, RecordException, ReleaseSlots, SendAll, WriteCheckpoint
from headrace.rpc.figures import SubtaskBarrier
from headrace.rpc.messages import EpochAborted, Failure, TriggerEpoch

FULL = Failure("the disk is full", "external", retry=True)


def follow(log: CheckpointLog, *effects: Effect, now_ms: int = 1_000) -> None:
    for effect in effects:
        log.observe(effect, 3, 2, now_ms=now_ms)


def trigger(epoch: int, folder: str = "") -> Effect:
    return SendAll(TriggerEpoch(epoch, folder, stop=False, drain=False))


def manifest(epoch: int) -> Manifest:
    return Manifest(
        kind="checkpoint",
        job="j",
        pipeline="p",
        epoch=epoch,
        attempt=3,
        created_at_ms=0,
        version="",
        plan_hash="",
        max_parallelism=1,
        parallelism={},
        nodes={},
        states=(),
        sources={},
        splits={},
    )


def written(epoch: int) -> CheckpointRecord:
    return CheckpointRecord(number=epoch, writer="w", at_ms=0, manifest=manifest(epoch))


def committed(epoch: int) -> CommittedRecord:
    return CommittedRecord(number=epoch, writer="w", at_ms=0, epoch=epoch)


def test_from_the_trigger_to_the_commit() -> None:
    log = CheckpointLog()
    follow(log, trigger(7))
    assert [(each.epoch, each.status, each.acked, each.slots) for each in log.entries] == [(7, "in-progress", 0, 2)]

    log.acknowledge(0, 7, "w1", [SubtaskBarrier(task="a", took_ms=30, aligned_ms=4, bytes=100)])
    log.acknowledge(1, 7, "w2", [SubtaskBarrier(task="a", took_ms=80, aligned_ms=60, bytes=11)])
    follow(log, WriteCheckpoint(1, manifest(7), None, (), took_ms=90))
    log.follow(written(7), 1_100)

    (entry,) = log.entries
    assert (entry.status, entry.took_ms, entry.ended_at_ms) == ("completed", 90, 1_100)
    assert (entry.acked, entry.bytes_written, entry.aligned_ms) == (2, 111, 60)
    assert [(each.subtask, each.worker, each.took_ms) for each in entry.slowest] == [(1, "w2", 80), (0, "w1", 30)]

    log.follow(committed(7), 1_200)
    assert log.entries[0].status == "committed"
    assert (log.completed, log.failed) == (1, 0)


def test_an_aborted_checkpoint_has_the_reason_that_follows() -> None:
    log = CheckpointLog()
    follow(log, trigger(1))
    follow(log, SendAll(EpochAborted(1)), RecordException(3, FULL, "it goes on"), now_ms=1_250)

    assert [(each.status, each.failure, each.took_ms) for each in log.entries] == [("failed", FULL.message, 250)]
    assert log.failed == 1


def test_a_checkpoint_in_flight_fails_with_its_attempt() -> None:
    log = CheckpointLog()
    follow(log, trigger(1), RecordException(3, FULL, "it restarts"), ReleaseSlots(), trigger(2), ReleaseSlots())

    assert [(each.epoch, each.failure) for each in log.entries] == [(2, ENDED), (1, FULL.message)]


def test_a_complete_checkpoint_outlives_its_attempt() -> None:
    log = CheckpointLog()
    follow(log, trigger(1, "file:///s"))
    log.follow(written(1), 1_100)
    follow(log, RecordException(3, FULL, "it restarts"), ReleaseSlots())
    log.follow(committed(1), 1_300)

    assert [(each.kind, each.status, each.failure) for each in log.entries] == [("savepoint", "committed", None)]


def test_late_and_unknown_acknowledgements_are_ignored() -> None:
    log = CheckpointLog()
    barrier = SubtaskBarrier(task="a", took_ms=1)
    log.acknowledge(0, 5, "w", [barrier])
    follow(log, trigger(6), SendAll(EpochAborted(6)))
    log.acknowledge(0, 6, "w", [barrier])

    assert [(each.epoch, each.acked) for each in log.entries] == [(6, 0)]


def test_the_log_is_bounded() -> None:
    log = CheckpointLog()
    for epoch in range(1, CHECKPOINTS_MAX + 20):
        follow(log, trigger(epoch), SendAll(EpochAborted(epoch)))
    follow(log, trigger(1_000))
    for task in range(3 * SLOWEST_MAX):
        log.acknowledge(0, 1_000, "w", [SubtaskBarrier(task=str(task), took_ms=task)])

    assert len(log.entries) == CHECKPOINTS_MAX
    assert [each.took_ms for each in log.entries[0].slowest] == list(range(3 * SLOWEST_MAX))[: -SLOWEST_MAX - 1 : -1]
