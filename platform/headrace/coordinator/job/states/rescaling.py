"""RESCALING: one epoch after whose barrier nothing is emitted, then a new attempt: with another parallelism, or with
the same one because a worker of this attempt is going to end."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.live_epochs import Live
from headrace.coordinator.job.states.transitions import STAY, Next, ToScheduling
from headrace.execution.epochs import Pending, Purpose


class Rescaling(Live):
    """Takes the checkpoint that the next attempt restores."""

    name: ClassVar[JobState] = JobState.RESCALING

    def __init__(self, attempt: Attempt, parallelism: int, ticket: int = 0) -> None:
        super().__init__(attempt)
        self._parallelism = parallelism
        self._ticket = ticket

    def enter(self, job: Job, now_ms: int) -> Next:
        """Triggers the epoch at once, or after the epoch in flight."""
        return self.advance(job, now_ms)

    def advance(self, job: Job, now_ms: int) -> Next:
        """Triggers the epoch."""
        if self.attempt.epochs.pending is None:
            self.begin(job, Purpose.RESCALE, now_ms)
        return STAY

    def after(self, job: Job, pending: Pending, now_ms: int) -> Next:
        """Ends the attempt; the next one has the new parallelism."""
        # an epoch that was in flight before the rescale: sources have sent rows after its barrier, so it is not the one
        # to restore
        if pending.purpose is not Purpose.RESCALE:
            return STAY
        job.release()
        job.parallelism = self._parallelism
        return ToScheduling()
