"""FINISHED: all input is processed, or the job was stopped with a last checkpoint or savepoint."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.terminal.ended import Over, answer_stop


class Finished(Over):
    """The successful end."""

    name: ClassVar[JobState] = JobState.FINISHED

    def answer(self, job: Job) -> None:
        """Answers a requested stop with the path of its savepoint."""
        answer_stop(job, self._savepoint)
        super().answer(job)
