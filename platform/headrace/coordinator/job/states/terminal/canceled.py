"""CANCELED: a user canceled the job, or a stop ended it, and not all of its end is known to be recorded."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.terminal.ended import Over, answer_stop, answered


class Canceled(Over):
    """The requested end."""

    name: ClassVar[JobState] = JobState.CANCELED

    def __init__(self, requests: tuple[str, ...]) -> None:
        super().__init__()
        self._requests = requests

    def answer(self, job: Job) -> None:
        """Answers the users who requested the cancel, or the stop that took no last checkpoint."""
        if job.ended_early:
            answer_stop(job, None)
        for request in self._requests:
            answered(job, request)
        super().answer(job)
