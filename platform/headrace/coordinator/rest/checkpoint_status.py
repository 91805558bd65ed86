"""Builds the REST API's documents about checkpoints: of a job's log, and of its journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.savepoints.savepoint import checkpoint_url
from headrace.checkpoint.stores.opening import open_store
from headrace.client.models import CheckpointInfo, CheckpointSubtask, moment
from headrace.coordinator.figures.checkpoint_log import AckedSubtask, CheckpointEntry, CheckpointLog


@dataclass(frozen=True, slots=True)
class CheckpointStates:
    """complete: the newest one; running: the one in flight; failed: the last that failed, unless one was complete
    since. None: the log has none."""

    complete: CheckpointInfo | None
    running: CheckpointInfo | None
    failed: CheckpointInfo | None


def checkpoint_states(log: CheckpointLog, now_ms: int) -> CheckpointStates:
    """Returns the checkpoints of the log that a job's status has."""
    entries = log.entries
    running = next((each for each in entries if each.status == "in-progress"), None)
    complete = next((each for each in entries if each.is_complete), None)
    newest = next((each for each in entries if each.status != "in-progress"), None)
    failed = newest if newest is not None and newest.status == "failed" else None

    def shown(entry: CheckpointEntry | None) -> CheckpointInfo | None:
        return None if entry is None else logged(entry, now_ms)

    return CheckpointStates(complete=shown(complete), running=shown(running), failed=shown(failed))


def logged(entry: CheckpointEntry, now_ms: int) -> CheckpointInfo:
    """Returns a checkpoint of the log."""
    ended_ms = entry.ended_at_ms
    # while its record is written, a checkpoint runs on: `took_ms` is known before that
    so_far_ms = max(0, now_ms - entry.started_at_ms)
    return CheckpointInfo(
        epoch=entry.epoch,
        attempt=entry.attempt,
        kind=entry.kind,
        status=entry.status,
        started_at=moment(entry.started_at_ms),
        completed_at=None if ended_ms is None or entry.status == "failed" else moment(ended_ms),
        duration_ms=so_far_ms if entry.status == "in-progress" else entry.took_ms,
        bytes=entry.bytes,
        failure=entry.failure,
        bytes_written=entry.bytes_written,
        aligned_ms=entry.aligned_ms,
        slots_acked=entry.acked,
        slots=entry.slots,
        slowest=tuple(_subtask(each) for each in entry.slowest),
    )


def checkpoint_info(record: CheckpointRecord, path: str, *, committed: bool) -> CheckpointInfo:
    """Returns a retained checkpoint."""
    manifest = record.manifest
    return CheckpointInfo(
        epoch=manifest.epoch,
        attempt=manifest.attempt,
        kind="checkpoint" if record.savepoint is None else "savepoint",
        status="committed" if committed else "completed",
        started_at=None if record.took_ms is None else moment(record.at_ms - record.took_ms),
        completed_at=moment(record.at_ms),
        duration_ms=record.took_ms,
        bytes=manifest.bytes,
        path=record.savepoint or path,
    )


def retained_checkpoints(storage: str) -> tuple[CheckpointInfo, ...]:
    """Reads all checkpoints of the journal in a job's storage, newest first. Blocking."""
    journal = JournalStore(open_store(storage), "", "").load()
    open_epoch = None if journal.uncommitted is None else journal.uncommitted.manifest.epoch
    return tuple(
        checkpoint_info(record, checkpoint_url(storage, record), committed=record.manifest.epoch != open_epoch)
        for record in reversed(journal.checkpoints)
    )


def with_log(retained: Iterable[CheckpointInfo], log: CheckpointLog | None, now_ms: int) -> tuple[CheckpointInfo, ...]:
    """Returns the retained checkpoints with the figures of the log, and those of the log that are not retained, newest
    first."""
    known = {} if log is None else {each.epoch: logged(each, now_ms) for each in log.entries}
    merged = dict(known)
    for info in retained:
        seen = known.get(info.epoch)
        figures = {} if seen is None else {name: getattr(seen, name) for name in _FIGURES}
        merged[info.epoch] = info.model_copy(update=figures)
    return tuple(merged[epoch] for epoch in sorted(merged, reverse=True))


_FIGURES = ("bytes_written", "aligned_ms", "slots_acked", "slots", "slowest")


def _subtask(acked: AckedSubtask) -> CheckpointSubtask:
    return CheckpointSubtask(
        task=acked.task,
        subtask=acked.subtask,
        worker=acked.worker,
        took_ms=acked.took_ms,
        aligned_ms=acked.aligned_ms,
        bytes=acked.bytes,
    )
