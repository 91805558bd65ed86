"""SUSPENDED: this coordinator has left the job, or another one has replaced it. The job continues from its journal."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.terminal.ended import Over
from headrace.coordinator.job.states.transitions import STAY, Next


class Suspended(Over):
    """Writes no record: the next coordinator continues the job from its journal."""

    name: ClassVar[JobState] = JobState.SUSPENDED

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the slots: the next coordinator starts a new attempt."""
        job.release()
        super().enter(job, now_ms)
        job.message = self._reason
        return STAY
