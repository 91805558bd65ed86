"""FINISHED: all input is processed, or the job was stopped with a last checkpoint or savepoint."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.terminal.ended import Over, answered


class Finished(Over):
    """The successful end."""

    name: ClassVar[JobState] = JobState.FINISHED

    def answer(self, job: Job) -> None:
        """Answers a requested stop with the path of its savepoint."""
        if job.stop is not None:
            answered(job, job.stop.id, self._savepoint)
            job.stop, job.stopped = None, True
        super().answer(job)
