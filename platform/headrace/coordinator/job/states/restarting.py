"""RESTARTING: the attempt is over; the next one begins after a delay."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.events import Event, JournalFailed, StopAsked, Tick
from headrace.coordinator.job.job import Job, Request
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.base import on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToScheduling
from headrace.rpc.messages import Failure


class Restarting:
    """Waits."""

    name: ClassVar[JobState] = JobState.RESTARTING

    def __init__(self, failure: Failure, until_ms: int) -> None:
        self._failure = failure
        self._until_ms = until_ms

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends what is left of the attempt."""
        delay_s = (self._until_ms - now_ms) / 1000
        job.restarts += 1
        job.message = f"starts again in {delay_s:.1f} s: {self._failure.message}"
        job.note(self._failure, f"restart in {delay_s:.1f} s")
        job.release()
        return STAY

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """The time being up, another attempt begins."""
        match event:
            case Tick() if now_ms >= self._until_ms:
                return ToScheduling()
            case StopAsked(request, folder, drain) if job.stop is None:
                job.stop = Request(request, folder, drain)
                return STAY
            case JournalFailed():
                # of a record of the attempt that is over: what stands is read before the next one
                return STAY
            case _:
                return on_any(self.name, job, event, now_ms)

    def due_ms(self, job: Job) -> int | None:
        """The end of the delay."""
        return self._until_ms
