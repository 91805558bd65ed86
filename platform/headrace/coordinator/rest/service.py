"""What a coordinator can be asked for: the seam between its HTTP shell (`coordinator.rest.app`) and what does the work.

`ClusterService` knows nothing of HTTP. A `reference` is a job's id, a unique prefix of one, or a name that one running
job has. What goes wrong is raised: `NoSuchJob` and `JobConflict` where they fit, any other UserError for what was
asked wrongly (InvalidPipeline with its problems), ExternalError for storage or workers that are away.
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


class NoSuchJob(UserError):  # noqa: N818 - reads as the sentence it is
    """No job (or no trigger of it) answers to that reference."""


class JobConflict(UserError):  # noqa: N818 - reads as the sentence it is
    """It cannot be done as things stand: several jobs of that name, a job that has ended, another operation runs."""


class ClusterService(Protocol):
    """A coordinator, as its clients see it. Long operations return at once with a trigger that is in progress."""

    @property
    def output(self) -> OutputService:
        """What can be asked about the output of jobs."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Accepts a job and returns its id, once a crash cannot lose it any more."""
        ...

    async def resubmit(self, reference: str, from_savepoint: str) -> str:
        """Runs the definition of a job that has ended again, from this savepoint, as a new job: returns its id."""
        ...

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Running jobs and the history, newest first."""
        ...

    async def job(self, reference: str) -> JobStatus:
        """All about one job."""
        ...

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Takes a savepoint under this folder, or where the coordinator keeps them."""
        ...

    async def stop(self, reference: str, savepoint: str | None, *, drain: bool) -> Trigger:
        """Stops at a cut, with a savepoint under this folder, or with a last checkpoint only."""
        ...

    async def cancel(self, reference: str) -> Trigger:
        """Ends a job at once; its checkpoints stay."""
        ...

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Runs on with another parallelism, through a checkpoint."""
        ...

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """How an operation stands."""
        ...

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """The job's checkpoints, newest first."""
        ...

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """The job's failures, newest first."""
        ...

    async def logs(self, reference: str, lines: int) -> tuple[str, ...]:
        """The last `lines` lines that the job's processes logged."""
        ...

    async def cluster(self) -> ClusterInfo:
        """Workers and slots."""
        ...

    async def metrics(self) -> str:
        """The running jobs for a monitoring system, in Prometheus' text format."""
        ...

    async def shutdown(self) -> None:
        """Asks the coordinator to end with its workers: running jobs are suspended, and go on when it starts again.

        Returns at once; the process ends a little later.
        """
        ...
