"""The checkpoints that a job has triggered in this coordinator: running, complete and failed ones. Pure.

The log follows the effects that the job's machine requests and the acknowledgements of slots. It decides nothing: the
journal alone knows which checkpoints can be restored.

    TriggerEpoch ──> in-progress ──record stands──> completed ──output visible──> committed
                          └── EpochAborted, or the attempt ends ──> failed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from headrace.checkpoint.journal.records import CheckpointRecord, CommittedRecord, Record
from headrace.coordinator.job.effects import Effect, RecordException, ReleaseSlots, SendAll, WriteCheckpoint
from headrace.rpc.figures import SubtaskBarrier
from headrace.rpc.messages import EpochAborted, TriggerEpoch

CHECKPOINTS_MAX = 100
"""Most checkpoints in the log: the newest ones."""
SLOWEST_MAX = 8
"""Most subtasks that a checkpoint keeps: the slowest ones."""
ENDED = "its attempt ended before it was complete"

Status = Literal["in-progress", "completed", "committed", "failed"]


@dataclass(frozen=True, slots=True)
class AckedSubtask:
    """One subtask's part in a checkpoint; figures as in `rpc.figures.SubtaskBarrier`."""

    task: str
    subtask: int
    worker: str
    took_ms: int
    aligned_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """One checkpoint. Times are epoch ms.

    ended_at_ms    when its record stood, or it failed; None: it is running
    took_ms        from its trigger until all its state was in storage and its record was requested, or it failed
    bytes          of all files that it names; bytes_written: of those that were written for it
    aligned_ms     the longest alignment of a subtask
    acked, slots   how many slots have acknowledged it, of how many
    slowest        the slowest subtasks, the slowest first
    """

    epoch: int
    attempt: int
    kind: Literal["checkpoint", "savepoint"]
    started_at_ms: int
    slots: int
    status: Status = "in-progress"
    ended_at_ms: int | None = None
    took_ms: int | None = None
    bytes: int | None = None
    bytes_written: int = 0
    aligned_ms: int = 0
    acked: int = 0
    slowest: tuple[AckedSubtask, ...] = ()
    failure: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether its record stands."""
        return self.status in {"completed", "committed"}


class CheckpointLog:
    """The log of one job. completed, failed: how many there were since this coordinator began."""

    def __init__(self) -> None:
        self._entries: dict[int, CheckpointEntry] = {}
        self._reason = ""
        self.completed = 0
        self.failed = 0

    @property
    def entries(self) -> tuple[CheckpointEntry, ...]:
        """All entries, the newest first."""
        return tuple(self._entries[epoch] for epoch in sorted(self._entries, reverse=True))

    def observe(self, effect: Effect, attempt: int, slots: int, *, now_ms: int) -> None:
        """Follows an effect. attempt, slots: the job's attempt now, and how many slots it has."""
        match effect:
            case SendAll(TriggerEpoch(epoch=epoch, savepoint=folder)):
                kind: Literal["checkpoint", "savepoint"] = "savepoint" if folder else "checkpoint"
                self._add(CheckpointEntry(epoch, attempt, kind, now_ms, slots))
            case WriteCheckpoint(manifest=manifest, took_ms=took_ms):
                self._measure(manifest.epoch, took_ms, manifest.bytes)
            case SendAll(EpochAborted(epoch=epoch)):
                self._fail(epoch, "", now_ms)
            case RecordException(failure=failure):
                self._explain(failure.message)
            case ReleaseSlots():
                for epoch in [each.epoch for each in self._entries.values() if each.status == "in-progress"]:
                    self._fail(epoch, self._reason or ENDED, now_ms)
                self._reason = ""
            case _:
                pass

    def acknowledge(self, index: int, epoch: int, worker: str, barriers: Iterable[SubtaskBarrier]) -> None:
        """Slot `index` on `worker` has all its state of the epoch in storage."""
        entry = self._entries.get(epoch)
        if entry is None or entry.status != "in-progress":
            return
        acked = [AckedSubtask(each.task, index, worker, each.took_ms, each.aligned_ms, each.bytes) for each in barriers]
        slowest = sorted([*entry.slowest, *acked], key=lambda each: (-each.took_ms, each.task, each.subtask))
        self._entries[epoch] = replace(
            entry,
            acked=entry.acked + 1,
            bytes_written=entry.bytes_written + sum(each.bytes for each in acked),
            aligned_ms=max([entry.aligned_ms, *(each.aligned_ms for each in acked)]),
            slowest=tuple(slowest[:SLOWEST_MAX]),
        )

    def follow(self, record: Record, now_ms: int) -> None:
        """A record stands in the journal."""
        match record:
            case CheckpointRecord(manifest=manifest):
                self._complete(manifest.epoch, now_ms)
            case CommittedRecord(epoch=epoch):
                self._commit(epoch)
            case _:
                pass

    def _complete(self, epoch: int, now_ms: int) -> None:
        entry = self._entries.get(epoch)
        if entry is not None and entry.status == "in-progress":
            self._entries[epoch] = replace(entry, status="completed", ended_at_ms=now_ms)
            self.completed += 1
            self._reason = ""

    def _commit(self, epoch: int) -> None:
        entry = self._entries.get(epoch)
        if entry is not None and entry.status == "completed":
            self._entries[epoch] = replace(entry, status="committed")

    def _add(self, entry: CheckpointEntry) -> None:
        self._entries[entry.epoch] = entry
        while len(self._entries) > CHECKPOINTS_MAX:
            del self._entries[min(self._entries)]

    def _measure(self, epoch: int, took_ms: int, size: int) -> None:
        if (entry := self._entries.get(epoch)) is not None:
            self._entries[epoch] = replace(entry, took_ms=took_ms, bytes=size)

    def _fail(self, epoch: int, reason: str, now_ms: int) -> None:
        entry = self._entries.get(epoch)
        if entry is None or entry.status != "in-progress":
            return
        took_ms = max(now_ms - entry.started_at_ms, 0)
        self._entries[epoch] = replace(
            entry, status="failed", ended_at_ms=now_ms, took_ms=took_ms, failure=reason or None
        )
        self.failed += 1

    def _explain(self, reason: str) -> None:
        """Takes over the reason of a failure: of the checkpoint that was just aborted, else of the attempt's end."""
        newest = self._entries.get(max(self._entries, default=0))
        if newest is not None and newest.status == "failed" and newest.failure is None:
            self._entries[newest.epoch] = replace(newest, failure=reason)
        else:
            self._reason = reason
