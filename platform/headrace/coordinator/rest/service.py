"""ClusterService: the requests that a coordinator accepts, the seam between REST (`coordinator.rest.app`) and
dispatcher.

`ClusterService` knows nothing of HTTP. A `reference` is a job's id, a unique prefix of one, or the name of one running
job. Errors: `JobNotFoundError` and `JobConflictError` where they fit, any other UserError for a wrong request
(InvalidPipelineError with its problems), ExternalError for unreachable storage or workers.
"""

from __future__ import annotations

from typing import Protocol

from headrace.client.models import (
    CheckpointInfo,
    ClusterInfo,
    ExceptionInfo,
    JobStatus,
    JobSummary,
    SubmitRequest,
    Trigger,
)
from headrace.coordinator.output.service import OutputService
from headrace.core.errors import UserError


class JobNotFoundError(UserError):
    """No job, or no trigger of it, has that reference."""


class JobConflictError(UserError):
    """The job's state forbids the request: another job holds the name, the job has ended, or another operation runs."""


class ClusterService(Protocol):
    """A coordinator, as its clients see it. Long operations return at once, with a trigger in progress."""

    @property
    def output(self) -> OutputService:
        """The requests about the output of jobs."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Accepts a job and returns its id, once a crash cannot lose it any more."""
        ...

    async def resubmit(self, reference: str, from_savepoint: str) -> str:
        """Runs an ended job's definition again, from this savepoint, as a new job. Returns its id."""
        ...

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Returns running jobs and the history, newest first."""
        ...

    async def job(self, reference: str) -> JobStatus:
        """Returns one job's status."""
        ...

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Takes a savepoint under this folder, or in the coordinator's default folder."""
        ...

    async def stop(self, reference: str, savepoint: str | None, *, drain: bool) -> Trigger:
        """Stops at a cut, with a savepoint under this folder, or with a last checkpoint only."""
        ...

    async def cancel(self, reference: str) -> Trigger:
        """Ends a job at once; its checkpoints stay."""
        ...

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Continues a job with another parallelism, through a checkpoint."""
        ...

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """Returns how an operation stands."""
        ...

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """Returns the job's checkpoints, newest first."""
        ...

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """Returns the job's failures, newest first."""
        ...

    async def logs(self, reference: str, lines: int) -> tuple[str, ...]:
        """Returns the last `lines` lines that the job's processes logged."""
        ...

    async def cluster(self) -> ClusterInfo:
        """Returns workers and slots."""
        ...

    async def metrics(self) -> str:
        """Returns the running jobs in Prometheus' text format."""
        ...

    async def shutdown(self) -> None:
        """Ends the coordinator and its workers: running jobs are suspended, and continue when it starts again.

        Returns at once; the process ends a little later.
        """
        ...
