"""What CANCELLING and FAILING share: slots end, then the `finished` record is written.

ReleaseSlots ─> SlotsReleased ─┐
ReadJournal ─> JournalRead ────┴─> [Commit what is decided, `committed`] ─> [Fence] ─> `finished` record ─> the end;
                                   or the end that the journal has already

Committers are asked while they are there and answer: the end is wanted, and brokers that are away do not put it off.
What stays open outside then expires there, or `headrace transactions` ends it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from headrace.checkpoint.records import CheckpointRecord
from headrace.coordinator.effects import Commit, Fence, ReadJournal, WriteCommitted, WriteFinished
from headrace.coordinator.events import (
    CancelAsked,
    CommitFailed,
    Committed,
    Event,
    Fenced,
    FenceFailed,
    HostFailed,
    JournalFailed,
    JournalRead,
    RecordWritten,
    Replaced,
    SlotsReleased,
    Suspend,
    Tick,
)
from headrace.coordinator.job import Job
from headrace.coordinator.job_state import JobState
from headrace.coordinator.states.base import State, on_any, refuse
from headrace.coordinator.states.recorded_end import recorded_end

JOURNAL_FAILURES_MAX = 2
"""So many failures of the journal, and the end comes unrecorded: it is wanted, and storage that is away does not undo
it; the job store remembers. The first may have been an earlier record's, or of a put that did succeed."""


class Leaving:
    """Base of the two."""

    name: ClassVar[JobState]

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Who asked for the end."""
        self._read = False
        self._released = False
        self._failures = 0
        self._tickets: list[int] = []
        self._deadline_ms = 0
        self._outside_ms: int | None = None
        """Until when committers are waited for; None: they are not asked yet, or not any more."""
        self._decided: CheckpointRecord | None = None
        self._settled = False
        """Nothing is asked of committers any more."""
        self._closing = 0
        """Ticket of the `committed` record."""

    @abstractmethod
    def end(self) -> State:
        """The state that follows."""

    @abstractmethod
    def error(self) -> str | None:
        """What the record says went wrong."""

    def enter(self, job: Job, now_ms: int) -> State:
        """Ends the attempt's slots."""
        self._deadline_ms = now_ms + job.config.cancel_timeout_ms
        job.message = "ending its slots"
        job.release()
        job.do(ReadJournal())
        return self

    def on(self, job: Job, event: Event, now_ms: int) -> State:
        """When the slots have left, or were waited for long enough, the end is recorded."""
        match event:
            case SlotsReleased() if not job.releasing:
                self._released = True
                return self._record(job, now_ms)
            case Tick() if (due_ms := self.due_ms(job)) is not None and now_ms >= due_ms:
                self._settled = self._released
                self._released = True
                return self._record(job, now_ms)
            case JournalRead() if not self._read:
                return self._on_journal(job, event, now_ms)
            case RecordWritten(ticket) if ticket in self._tickets:
                return self.end()
            case RecordWritten(ticket) if ticket == self._closing:
                return self._fence(job)
            case Committed() | CommitFailed() | Fenced() | FenceFailed() | HostFailed():
                return self._on_outside(job, event)
            case JournalFailed():
                return self._on_journal_failed(job)
            case CancelAsked(request):
                self.asked.append(request)
                return self
            case Suspend() | Replaced():
                for request in self.asked:
                    refuse(job, request, self.name)
                return on_any(self, job, event, now_ms)
            case _:
                return on_any(self, job, event, now_ms)

    def _on_journal(self, job: Job, read: JournalRead, now_ms: int) -> State:
        self._read = True
        if read.finished is None or job.begins_anew:
            self._decided = read.uncommitted
            job.open_names = dict(read.transactions)
            return self._record(job, now_ms)
        if read.finished.state == JobState.FINISHED:
            job.message = ""
            for request in self.asked:
                refuse(job, request, JobState.FINISHED)
        return recorded_end(read.finished, *self.asked)

    def _on_journal_failed(self, job: Job) -> State:
        self._failures += 1
        if self._failures >= JOURNAL_FAILURES_MAX:
            return self.end()
        if not self._read:
            job.do(ReadJournal())
        elif self._tickets:
            self._write(job)
        elif self._closing:
            return self._fence(job)
        return self

    # ---- what is open outside ------------------------------------------------------------------------------------

    def _record(self, job: Job, now_ms: int) -> State:
        if not (self._released and self._read) or self._tickets:
            return self
        if self._settled or not job.hosted or not job.open_names:
            self._write(job)
        elif self._outside_ms is None:
            self._outside_ms = now_ms + job.config.cancel_timeout_ms
            self._commit(job)
        return self

    def _commit(self, job: Job) -> None:
        if self._decided is None or not self._decided.manifest.committables:
            self._fence(job)
            return
        manifest = self._decided.manifest
        job.message = f"committing epoch {manifest.epoch}"
        job.do(Commit(manifest.epoch, manifest.committables))

    def _on_outside(self, job: Job, event: Committed | CommitFailed | Fenced | FenceFailed | HostFailed) -> State:
        if isinstance(event, HostFailed):
            job.hosted = False
        if self._outside_ms is None or self._tickets:
            return self
        match event:
            case Committed(epoch, lost) if self._decided is not None and epoch == self._decided.manifest.epoch:
                if lost:
                    return self._fence(job)
                self._closing = job.ticket()
                job.do(WriteCommitted(self._closing, epoch))
                return self
            case Committed() | CommitFailed():
                return self if self._decided is None else self._fence(job)
            case _:
                self._settled = True
                self._write(job)
                return self

    def _fence(self, job: Job) -> State:
        self._decided = None
        job.message = "ending its open transactions"
        job.do(Fence(job.attempt, dict(job.open_names)))
        return self

    def _write(self, job: Job) -> None:
        self._tickets.append(job.ticket())
        job.do(WriteFinished(self._tickets[-1], self.end().name, error=self.error()))

    def due_ms(self, job: Job) -> int | None:
        """When slots, and then committers, have been waited for long enough."""
        if not self._released:
            return self._deadline_ms
        return None if self._settled or self._tickets else self._outside_ms
