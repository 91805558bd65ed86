"""CREATED: the job is accepted, and nothing is done yet. The first tick schedules it."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.events import Event, Tick
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToScheduling


class Created:
    """Waits for the first tick."""

    name: ClassVar[JobState] = JobState.CREATED

    def enter(self, job: Job, now_ms: int) -> Next:
        """Does nothing."""
        return STAY

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Goes to SCHEDULING at the first tick."""
        match event:
            case Tick():
                return ToScheduling()
            case _:
                return on_any(self.name, job, event, now_ms)

    def due_ms(self, job: Job) -> int | None:
        """Returns 0: the tick is due immediately."""
        return 0
