"""What REST says about the checkpoints of a log."""

from __future__ import annotations

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.figures.checkpoint_log import CheckpointLog
from headrace.coordinator.job.effects import SendAll, WriteCheckpoint
from headrace.coordinator.rest.checkpoint_status import checkpoint_states, with_log
from headrace.rpc.figures import SubtaskBarrier
from headrace.rpc.messages import EpochAborted, TriggerEpoch

MANIFEST = Manifest(
    kind="checkpoint",
    job="j",
    pipeline="p",
    epoch=7,
    attempt=1,
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


def log_with(epoch: int, *, at_ms: int) -> CheckpointLog:
    log = CheckpointLog()
    log.observe(SendAll(TriggerEpoch(epoch, "", stop=False, drain=False)), 1, 2, now_ms=at_ms)
    return log


def test_a_running_checkpoint_has_run_until_now() -> None:
    log = log_with(7, at_ms=1_000)

    seen = checkpoint_states(log, 3_500)

    assert seen.running is not None and seen.failed is seen.complete is None
    assert seen.running.duration_ms == 2_500
    assert [each.duration_ms for each in with_log((), log, 4_000)] == [3_000]


def test_a_clock_that_was_set_back_is_no_negative_duration() -> None:
    running = checkpoint_states(log_with(7, at_ms=1_000), 10).running

    assert running is not None and running.duration_ms == 0


def test_a_failed_checkpoint_keeps_its_duration() -> None:
    log = log_with(7, at_ms=1_000)
    log.observe(SendAll(EpochAborted(7)), 1, 2, now_ms=1_400)

    failed = checkpoint_states(log, 9_000).failed

    assert failed is not None and failed.duration_ms == 400


def test_the_newest_complete_checkpoint_has_its_figures() -> None:
    log = log_with(7, at_ms=1_000)
    log.acknowledge(0, 7, "w1", [SubtaskBarrier(task="a", took_ms=30, aligned_ms=4, bytes=100)])
    log.acknowledge(1, 7, "w2", [SubtaskBarrier(task="a", took_ms=80, aligned_ms=60, bytes=11)])
    log.observe(WriteCheckpoint(1, MANIFEST, None, (), took_ms=90), 1, 2, now_ms=1_090)
    writing = checkpoint_states(log, 9_000)
    assert writing.complete is None and writing.running is not None, "its record does not stand yet"
    assert writing.running.duration_ms == 8_000
    log.follow(CheckpointRecord(number=7, writer="w", at_ms=0, manifest=MANIFEST), 1_200)

    found = checkpoint_states(log, 9_000).complete

    assert found is not None
    assert (found.epoch, found.duration_ms, found.bytes_written, found.aligned_ms) == (7, 90, 111, 60)
    assert [(each.task, each.subtask, each.took_ms) for each in found.slowest] == [("a", 1, 80), ("a", 0, 30)]
