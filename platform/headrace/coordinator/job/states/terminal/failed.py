"""FAILED: the job has ended with a failure, and the end is recorded."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.terminal.ended import Over, answered
from headrace.rpc.messages import Failure


class Failed(Over):
    """The end by a failure."""

    name: ClassVar[JobState] = JobState.FAILED

    def __init__(self, failure: Failure, requests: tuple[str, ...]) -> None:
        super().__init__(failure=failure)
        self._requests = requests

    def answer(self, job: Job) -> None:
        """Answers the cancels that were requested meanwhile with success: the job has ended."""
        for request in self._requests:
            answered(job, request)
        super().answer(job)
