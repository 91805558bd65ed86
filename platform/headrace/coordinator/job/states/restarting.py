"""RESTARTING: the attempt is over; the next one begins after a delay."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.events import Event, JournalFailed, StopAsked, Tick
from headrace.coordinator.job.job import Job, Request
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToScheduling
from headrace.rpc.messages import Failure


class Restarting:
    """Waits for the end of the delay."""

    name: ClassVar[JobState] = JobState.RESTARTING

    def __init__(self, failure: Failure, until_ms: int) -> None:
        self._failure = failure
        self._until_ms = until_ms

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the attempt's remaining slots."""
        delay_s = (self._until_ms - now_ms) / 1000
        job.restarts += 1
        job.message = f"starts again in {delay_s:.1f} s: {self._failure.message}"
        job.note(self._failure, f"restart in {delay_s:.1f} s")
        job.release()
        return STAY

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Goes to SCHEDULING after the delay."""
        match event:
            case Tick() if now_ms >= self._until_ms:
                return ToScheduling()
            case StopAsked(request, folder, drain) if job.stop is None:
                # kept for the next attempt: a stop takes a last epoch, which needs running slots
                job.stop = Request(request, folder, drain)
                return STAY
            case JournalFailed():
                # a record of the ended attempt could not be written: the journal is read again before the next attempt
                return STAY
            case _:
                return on_any(self.name, job, event, now_ms)

    def due_ms(self, job: Job) -> int | None:
        """The end of the delay."""
        return self._until_ms
