"""What CANCELLING and FAILING share: slots end, then the `finished` record is written."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from headrace.coordinator.effects import ReleaseSlots, WriteFinished
from headrace.coordinator.events import CancelAsked, Event, JournalFailed, RecordWritten, SlotsReleased, Tick
from headrace.coordinator.job import Job
from headrace.coordinator.job_state import JobState
from headrace.coordinator.states.base import State, on_any


class Leaving:
    """Base of the two."""

    name: ClassVar[JobState]

    def __init__(self) -> None:
        self._ticket = 0
        self._deadline_ms = 0
        self._asked: list[str] = []
        """Who asked for the end while it was under way."""

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
        job.do(ReleaseSlots())
        return self

    def on(self, job: Job, event: Event, now_ms: int) -> State:
        """When the slots have left, or were waited for long enough, the end is recorded."""
        match event:
            case SlotsReleased():
                return self._record(job)
            case Tick() if now_ms >= self._deadline_ms:
                return self._record(job)
            case RecordWritten(ticket) if ticket == self._ticket:
                return self.end()
            case JournalFailed():
                # the end is the user's wish: storage that is away does not undo it; the job store remembers
                return self.end()
            case CancelAsked(request):
                self._asked.append(request)
                return self
            case _:
                return on_any(self, job, event, now_ms)

    def _record(self, job: Job) -> State:
        if not self._ticket:
            self._ticket = job.ticket()
            job.do(WriteFinished(self._ticket, self.end().name, error=self.error()))
        return self

    def due_ms(self, job: Job) -> int | None:
        """When slots have been waited for long enough."""
        return None if self._ticket else self._deadline_ms
