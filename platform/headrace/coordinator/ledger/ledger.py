"""The jobs of a cluster from its ledger, and whether a writer may still write. Pure.

    snapshot 40 ── 41 ── 42 ── 43        next: 44, put-if-absent
    └ the jobs after record 40           └ head

A coordinator begins with a record of its own at head + 1, and puts every change at the number after its last one. If
that number is taken, or if a higher one exists after its put, another coordinator has taken the ledger over: this one
has been replaced. The second test is needed because records that a snapshot contains are deleted, so that a coordinator
that was suspended may put a record at a free number far below the head. That record counts for nothing: it lies below
the newest snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import assert_never

from headrace.coordinator.ledger.records import (
    Change,
    Discarded,
    Ended,
    EndWithdrawn,
    Forgotten,
    HistoryKept,
    Identified,
    JobChange,
    LedgerJob,
    LedgerRecord,
    Snapshot,
    Submitted,
)
from headrace.core.errors import ExternalError


class LedgerCorruptError(ExternalError):
    """A record is missing that compaction never deletes. A listing that overlaps another process's put or compaction
    may lack one, too, so the error has `retry`."""


@dataclass(frozen=True, slots=True)
class Written:
    """The record was written, and no higher one exists."""

    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing was written now: an earlier put of the same writer had succeeded, and its response was lost. Its changes
    are part of the ledger; those of this put are not, and are put again at the next number."""

    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another coordinator has taken the ledger over. number: the record that proves it; writer: the token of that
    record's writer, if it was read."""

    number: int
    writer: str | None = None


Verdict = Written | Settled | Replaced


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cluster after the record `head`. snapshot: number of the newest snapshot, 0 before the first."""

    head: int = 0
    snapshot: int = 0
    identity: Identified | None = None
    jobs: Mapping[str, LedgerJob] = field(default_factory=lambda: MappingProxyType({}))

    @staticmethod
    def load(snapshot: Snapshot | None, records: Iterable[LedgerRecord]) -> Ledger:
        """The ledger from its newest snapshot and all records, in any order. Raises LedgerCorruptError."""
        ledger = Ledger() if snapshot is None else _restored(snapshot)
        for record in sorted(records, key=lambda each: each.number):
            if record.number <= ledger.snapshot:
                continue  # the snapshot contains it, or a replaced writer has put it late
            if record.number != ledger.head + 1:
                raise LedgerCorruptError(
                    f"the ledger has no record {ledger.head + 1}, and one with number {record.number}",
                    remedy="restore the missing file of the ledger's folder",
                    retry=True,
                )
            ledger = ledger.with_record(record)
        return ledger

    def next(self, changes: Sequence[Change], writer: str, at_ms: int) -> LedgerRecord:
        """The record to put."""
        return LedgerRecord(number=self.head + 1, writer=writer, at_ms=at_ms, changes=tuple(changes))

    def on_put(self, put: LedgerRecord, found: LedgerRecord | None, higher: Iterable[int]) -> Verdict:
        """The verdict on a put of `put` (made by `next`).

        found    None: the record was written; else the record that already had its number
        higher   numbers above it, listed after the put
        """
        assert put.number == self.head + 1, "a record is put at head + 1"
        above = max((number for number in higher if number > put.number), default=None)
        # checked first: a put below the head succeeds if its number was deleted, and still must not count
        if above is not None:
            return Replaced(above)
        if found is None:
            return Written(self.with_record(put))
        if found.writer != put.writer:
            return Replaced(found.number, found.writer)
        # the same writer's token: the store wrote an earlier put whose response was lost, perhaps of other changes
        stands = self.with_record(found)
        return Written(stands) if found.changes == put.changes else Settled(stands)

    def with_record(self, record: LedgerRecord) -> Ledger:
        """The ledger after a record."""
        jobs, identity = dict(self.jobs), self.identity
        for change in record.changes:
            match change:
                case Identified():
                    identity = change
                case _:
                    _apply(jobs, change)
        return replace(self, head=record.number, identity=identity, jobs=MappingProxyType(jobs))

    def as_snapshot(self) -> Snapshot:
        """A snapshot at the head."""
        return Snapshot(number=self.head, identity=self.identity, jobs=tuple(self.jobs.values()))


def _restored(snapshot: Snapshot) -> Ledger:
    jobs = MappingProxyType({each.job: each for each in snapshot.jobs})
    return Ledger(snapshot.number, snapshot.number, snapshot.identity, jobs)


def _apply(jobs: dict[str, LedgerJob], change: JobChange) -> None:
    """Applies a change of a job. One of a job that is not there has no effect: it was discarded or forgotten before."""
    match change:
        case Submitted(job=job, sealed=sealed):
            # a repeated put may have settled before: the same submission twice is one job
            jobs.setdefault(job, LedgerJob(job=job, sealed=sealed))
        case Discarded(job=job) | Forgotten(job=job):
            jobs.pop(job, None)
        case HistoryKept(job=job, history=history):
            if job in jobs and history.changes >= jobs[job].history.changes:
                jobs[job] = jobs[job].model_copy(update={"history": history})
        case Ended(job=job, result=result):
            if job in jobs:
                jobs[job] = jobs[job].model_copy(update={"result": result})
        case EndWithdrawn(job=job):
            if job in jobs:
                jobs[job] = jobs[job].model_copy(update={"result": None})
        case _:
            assert_never(change)
