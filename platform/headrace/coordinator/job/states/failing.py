"""FAILING: no restart follows a failure; the slots end."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.events import CauseFound, Event, SlotFailed
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.leaving import Leaving
from headrace.coordinator.job.states.transitions import Next, ToFailed
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


class Failing(Leaving):
    """Ends the job with its failure."""

    name: ClassVar[JobState] = JobState.FAILING

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self._failure = failure

    def enter(self, job: Job, now_ms: int) -> Next:
        """Records the failure and ends the slots."""
        job.note(self._failure, "the job fails")
        return super().enter(job, now_ms)

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """As all that leave; the cause of an outage between slots takes its place."""
        match event:
            case CauseFound(attempt, failure):
                self._replace(job, failure, attempt)
            case SlotFailed(_, failure):
                self._replace(job, failure, job.attempt)
            case _:
                pass
        return super().on(job, event, now_ms)

    def _replace(self, job: Job, cause: Failure, attempt: int) -> None:
        if self._failure.domain == Domain.EXTERNAL and cause.domain != Domain.EXTERNAL:
            self._failure = cause
            job.note(cause, "the cause of this failure", attempt)

    def end(self) -> ToFailed:
        """Returns the transition to FAILED."""
        return ToFailed(self._failure, tuple(self.asked))

    def error(self) -> str | None:
        """The failure's text."""
        return self._failure.message

    def visible_in_part(self, failure: Failure) -> None:
        """Replaces the failure: the user has to choose how to continue, so the end must show this failure."""
        self._failure = failure
