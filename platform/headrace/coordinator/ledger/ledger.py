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

from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger.records import (
    ApplicationEnded,
    Change,
    Discarded,
    Ended,
    EndWithdrawn,
    Forgotten,
    HistoryKept,
    Identified,
    JobResult,
    LedgerJob,
    LedgerRecord,
    Snapshot,
    Submitted,
    TriggerKept,
)
from headrace.core.errors import ExternalError

TRIGGERS_MAX = 200
"""Most operations that have ended which a ledger keeps. Those in progress are bounded by what a job accepts."""


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
class LedgerReplaced:
    """Another coordinator has taken the ledger over. number: the record that proves it; writer: the token of that
    record's writer, if it was read."""

    number: int
    writer: str | None = None


PutResult = Written | Settled | LedgerReplaced


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cluster after the record `head`.

    snapshot                number of the newest snapshot, 0 before the first
    application_exit_code   of the application that the cluster served; None: it has none, or it has not ended
    """

    head: int = 0
    snapshot: int = 0
    identity: Identified | None = None
    application_exit_code: int | None = None
    jobs: Mapping[str, LedgerJob] = field(default_factory=lambda: MappingProxyType({}))
    triggers: Mapping[str, TriggerKept] = field(default_factory=lambda: MappingProxyType({}))

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

    def next(self, changes: Sequence[Change], writer: str, at_ms: int, *, version: str = "") -> LedgerRecord:
        """The record to put. version: of headrace, for messages."""
        return LedgerRecord(number=self.head + 1, writer=writer, at_ms=at_ms, changes=tuple(changes), version=version)

    def on_put(self, put: LedgerRecord, found: LedgerRecord | None, higher: Iterable[int]) -> PutResult:
        """Returns the result of a put of `put` (made by `next`).

        found    None: the record was written; else the record that already had its number
        higher   numbers above it, listed after the put
        """
        assert put.number == self.head + 1, "a record is put at head + 1"
        above = max((number for number in higher if number > put.number), default=None)
        # checked first: a put below the head succeeds if its number was deleted, and still must not count
        if above is not None:
            return LedgerReplaced(above)
        if found is None:
            return Written(self.with_record(put))
        if found.writer != put.writer:
            return LedgerReplaced(found.number, found.writer)
        # the same writer's token: the store wrote an earlier put whose response was lost, perhaps of other changes
        stands = self.with_record(found)
        return Written(stands) if found.changes == put.changes else Settled(stands)

    def with_record(self, record: LedgerRecord) -> Ledger:
        """The ledger after a record."""
        draft = _Draft(self.identity, self.application_exit_code, dict(self.jobs), dict(self.triggers))
        for change in record.changes:
            draft.apply(change)
        return replace(
            self,
            head=record.number,
            identity=draft.identity,
            application_exit_code=draft.application_exit_code,
            jobs=MappingProxyType(draft.jobs),
            triggers=MappingProxyType(draft.triggers),
        )

    def as_snapshot(self, *, version: str = "") -> Snapshot:
        """A snapshot at the head. version: of headrace, for messages."""
        return Snapshot(
            version=version,
            number=self.head,
            identity=self.identity,
            application_exit_code=self.application_exit_code,
            jobs=tuple(self.jobs.values()),
            triggers=tuple(self.triggers.values()),
        )


def _restored(snapshot: Snapshot) -> Ledger:
    return Ledger(
        snapshot.number,
        snapshot.number,
        identity=snapshot.identity,
        application_exit_code=snapshot.application_exit_code,
        jobs=MappingProxyType({each.job: each for each in snapshot.jobs}),
        triggers=MappingProxyType({each.trigger: each for each in snapshot.triggers}),
    )


@dataclass(slots=True)
class _Draft:
    """A ledger while the changes of one record are applied. A change of a job that is not there has no effect: the job
    was discarded or forgotten before.
    """

    identity: Identified | None
    application_exit_code: int | None
    jobs: dict[str, LedgerJob]
    triggers: dict[str, TriggerKept]

    def apply(self, change: Change) -> None:
        match change:
            case Identified():
                self.identity = change
            case ApplicationEnded(exit_code=exit_code):
                # the first end counts: a program that ran beside a deposed leader may end later
                if self.application_exit_code is None:
                    self.application_exit_code = exit_code
            case TriggerKept():
                self._keep(change)
            case Submitted(job=job, sealed=sealed):
                # a repeated put may have settled before: the same submission twice is one job
                self.jobs.setdefault(job, LedgerJob(job=job, sealed=sealed))
            case Discarded(job=job) | Forgotten(job=job):
                self.jobs.pop(job, None)
                self.triggers = {each.trigger: each for each in self.triggers.values() if each.job != job}
            case HistoryKept(job=job, history=history):
                if job in self.jobs and history.changes >= self.jobs[job].history.changes:
                    self._update(job, history=history)
            case Ended(job=job, result=result):
                self._update(job, result=result)
            case EndWithdrawn(job=job):
                self._update(job, result=None)
            case _:
                assert_never(change)

    def _update(self, job: str, **fields: JobHistory | JobResult | None) -> None:
        if job in self.jobs:
            self.jobs[job] = self.jobs[job].model_copy(update=fields)

    def _keep(self, change: TriggerKept) -> None:
        known = self.triggers.get(change.trigger)
        # its end may be written before its beginning: threads write both
        if change.job not in self.jobs or (known is not None and known.is_final):
            return
        self.triggers[change.trigger] = change
        final = [each.trigger for each in self.triggers.values() if each.is_final]
        for oldest in final[:-TRIGGERS_MAX]:
            del self.triggers[oldest]
