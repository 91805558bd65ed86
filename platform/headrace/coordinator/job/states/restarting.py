"""RESTARTING: the attempt is over; the next one begins after a delay.

A stop ends the job now, because the last complete checkpoint has everything that another attempt could save at its
start. A stop with a savepoint or with drain needs that attempt, and waits for it within its bound.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.events import CauseFound, Event, JournalFailed, SlotFailed, StopAsked, Tick
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import after_cause, on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToEndingEarly, ToScheduling
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


class Restarting:
    """Waits for the end of the delay."""

    name: ClassVar[JobState] = JobState.RESTARTING

    def __init__(self, failure: Failure, until_ms: int) -> None:
        self._failure = failure
        self._until_ms = until_ms

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the attempt's remaining slots."""
        if job.stop is not None and not job.stop.needs_attempt:
            job.note(self._failure, "the job was asked to stop, and ends")
            return self._end(job)
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
            case StopAsked() if job.stop is None:
                return STAY if job.ask_stop(event, now_ms).needs_attempt else self._end(job)
            case SlotFailed(_, failure) if failure.domain != Domain.EXTERNAL:
                # it was under way when a slot beside this one reported its lost connection
                return after_cause(job, CauseFound(job.attempt, failure), now_ms)
            case JournalFailed():
                # a record of the ended attempt could not be written: the journal is read again before the next attempt
                return STAY
            case _:
                return on_any(self.name, job, event, now_ms)

    def _end(self, job: Job) -> ToEndingEarly:
        reason = self._failure.message.partition("\n")[0]
        return ToEndingEarly(f"its attempt {job.attempt} had failed: {reason}")

    def due_ms(self, job: Job) -> int | None:
        """The end of the delay."""
        return self._until_ms
