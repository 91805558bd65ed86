"""ClusterService and OutputService: the requests that a coordinator accepts; the interface between REST
(`coordinator.rest.app`) and the dispatcher.

They know nothing of HTTP. A `reference` is a job's id, a unique prefix of one, or the name of one running
job. Errors: `JobNotFoundError` and `JobConflictError` where they fit, any other UserError for a wrong request
(InvalidPipelineError with its problems), ExternalError for unreachable storage or workers.
"""

from __future__ import annotations

from typing import Protocol

from headrace.client.cluster_models import ClusterInfo
from headrace.client.figure_models import Bottleneck, JobFigures
from headrace.client.models import CheckpointInfo, ExceptionInfo, JobStatus, JobSummary, LogLines, Trigger
from headrace.client.output_models import (
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionList,
)
from headrace.client.requests import SubmitRequest
from headrace.client.state_models import StateList, StateQuery, StateRows
from headrace.core.errors import UserError


class JobNotFoundError(UserError):
    """No job, or no trigger of it, has that reference."""


class JobConflictError(UserError):
    """The job's state forbids the request: another job holds the name, the job has ended, or another operation runs."""


class ClusterService(Protocol):
    """The requests of a coordinator's clients. Long operations return at once, with a trigger that is in progress."""

    @property
    def output(self) -> OutputService:
        """The requests about the output of jobs."""
        ...

    async def submit(self, request: SubmitRequest) -> str:
        """Accepts a job. Returns its id once a crash cannot lose the job any more."""
        ...

    async def resubmit(self, reference: str, from_savepoint: str, key: str | None = None) -> str:
        """Submits an ended job's definition as a new job that starts from this savepoint. Returns the new job's id; of
        a key that it knows, the job that has it."""
        ...

    async def jobs(self) -> tuple[JobSummary, ...]:
        """Returns all jobs, running and ended, newest first."""
        ...

    async def figures(self) -> tuple[JobFigures, ...]:
        """Returns all jobs with their figures, newest first."""
        ...

    async def job(self, reference: str, *, detailed: frozenset[str] | None = None) -> JobStatus:
        """Returns one job's status. detailed: nodes whose subtasks and partitions are wanted; None: those of all."""
        ...

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        """Takes a savepoint under this folder, or in the coordinator's default folder."""
        ...

    async def checkpoint(self, reference: str) -> Trigger:
        """Takes a checkpoint now. A coordinator that follows does not know the trigger."""
        ...

    async def stop(
        self, reference: str, savepoint: str | None, *, drain: bool, within_ms: int | None = None
    ) -> Trigger:
        """Stops a job after a last checkpoint, with a savepoint under this folder, or without one. drain: time advances
        to its end before, so that every window fires. within_ms: it ends within this time, at its last complete
        checkpoint if none completes; None: 60 s."""
        ...

    async def cancel(self, reference: str) -> Trigger:
        """Ends a job at once; its checkpoints stay."""
        ...

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        """Takes a checkpoint, and continues the job from it with another parallelism."""
        ...

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        """Returns the current state of an operation."""
        ...

    async def bottleneck(self, reference: str) -> Bottleneck:
        """Returns why one job is slow."""
        ...

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        """Returns the job's checkpoints, newest first."""
        ...

    async def state(self, reference: str) -> StateList:
        """Returns the job's states, as of its newest complete checkpoint. Raises JobConflictError if it has none."""
        ...

    async def state_rows(self, reference: str, query: StateQuery) -> StateRows:
        """Returns rows of the state of a node, as of the same checkpoint."""
        ...

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        """Returns the job's failures, newest first."""
        ...

    async def logs(self, reference: str, lines: int, after: str | None) -> LogLines:
        """Returns the last `lines` lines that the job's processes logged, or all behind the position `after`."""
        ...

    async def cluster(self) -> ClusterInfo:
        """Returns workers and slots."""
        ...

    async def stacks(self, worker: str) -> str:
        """Returns the stacks of all threads of a worker and of its slots, as text."""
        ...

    async def worker_logs(self, worker: str) -> str:
        """Returns the newest lines that a worker and its slots have logged, as text."""
        ...

    async def end_application(self, exit_code: int) -> None:
        """Records that the program of the cluster's application has ended. The first exit code counts."""
        ...

    async def hold(self, seconds: float) -> None:
        """Notes that a client is about to submit another job, for so long. Forgotten with the coordinator."""
        ...

    async def metrics(self) -> str:
        """Returns the running jobs in Prometheus' text format."""
        ...

    async def shutdown(self) -> None:
        """Ends the coordinator and its workers. Running jobs are suspended, and continue when it starts again.

        Returns at once; the process ends shortly after.
        """
        ...


class OutputService(Protocol):
    """The output of a cluster's jobs, running or ended."""

    async def transactions(self, reference: str) -> TransactionList:
        """Returns a job's open transactions, with the actions that are safe for each."""
        ...

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts the transactions for which that is safe, or lists them."""
        ...

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        """Returns the newest dead letters of a job."""
        ...

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        """Resends dead letters, or lists which it would resend."""
        ...

    async def audit(self, reference: str) -> Trigger:
        """Reads the output of a job back and compares it with what the job wrote. Returns at once."""
        ...
