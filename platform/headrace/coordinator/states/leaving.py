"""What CANCELLING and FAILING share: slots end, then the `finished` record is written.

ReleaseSlots ─> SlotsReleased ─┐
ReadJournal ─> JournalRead ────┴─> `finished` record ─> the end; or the end that the journal has already
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from headrace.coordinator.effects import ReadJournal, WriteFinished
from headrace.coordinator.events import (
    CancelAsked,
    Event,
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
                return self._record(job)
            case Tick() if now_ms >= self._deadline_ms:
                self._released = True
                return self._record(job)
            case JournalRead() if not self._read:
                return self._on_journal(job, event)
            case RecordWritten(ticket) if ticket in self._tickets:
                return self.end()
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

    def _on_journal(self, job: Job, read: JournalRead) -> State:
        self._read = True
        if read.finished is None or job.begins_anew:
            return self._record(job)
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
        return self

    def _record(self, job: Job) -> State:
        if self._released and self._read and not self._tickets:
            self._write(job)
        return self

    def _write(self, job: Job) -> None:
        self._tickets.append(job.ticket())
        job.do(WriteFinished(self._tickets[-1], self.end().name, error=self.error()))

    def due_ms(self, job: Job) -> int | None:
        """When slots have been waited for long enough."""
        return None if self._released else self._deadline_ms
