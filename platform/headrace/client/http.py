"""The HTTP client of a cluster: one method per operation of the REST API, blocking, with the platform's own errors.

UnreachableError     no answer, or not from a headrace coordinator
UserError       the coordinator rejected the request: wrong use, unknown job, invalid pipeline (InvalidPipelineError)
ExternalError   storage or workers are unavailable
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import BaseModel, ValidationError

from headrace.client.cluster_models import ApplicationEnd, ClusterInfo, Health, HoldRequest, WorkerLogs, WorkerStacks
from headrace.client.connection import Connection
from headrace.client.errors import error_of
from headrace.client.figure_models import Bottleneck, JobFigures, JobFiguresList
from headrace.client.models import (
    FINAL_STATES,
    CheckpointInfo,
    CheckpointList,
    ErrorBody,
    ExceptionInfo,
    ExceptionList,
    JobList,
    JobStatus,
    JobSummary,
    LogLines,
    Submitted,
    Trigger,
)
from headrace.client.output_models import (
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionList,
)
from headrace.client.requests import RescaleRequest, ResubmitRequest, SavepointRequest, StopRequest, SubmitRequest
from headrace.client.state_models import StateList, StateQuery, StateRows
from headrace.core.errors import ExternalError, UnreachableError, UserError
from headrace.core.retry import Backoff, Retries
from headrace.leadership.elector import Locator
from headrace.tls.files import NamedServer

ANSWER_SECONDS = 120.0
_POLL_BACKOFF = Backoff(first_s=0.05, max_s=1.0, growth=1.5)
"""Pause between two polls: short at first, because most operations complete soon."""
AWAY_SECONDS_MAX = 60.0
"""How long a coordinator may be unreachable (it restarts, jobs continue) before waiting for a job fails."""

Model = TypeVar("Model", bound=BaseModel)


class Client:
    """A cluster, by the address of its coordinator. Must be closed, or used as a context manager. Not thread-safe."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        authority: Path | NamedServer | None = None,
        answer_s: float = ANSWER_SECONDS,
        locator: Locator | None = None,
    ) -> None:
        """
        url        of the coordinator; "" with a locator
        authority  PEM file of the authority that signed the coordinator's certificate, or the name that it must have at
                   whatever address; None: an authority of the system
        locator    finds the leader of a cluster with an election; closed with this client
        """
        self._connection = Connection(url, token, authority=authority, answer_s=answer_s, locator=locator)

    @property
    def url(self) -> str:
        """The URL of the coordinator that answered last."""
        return self._connection.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client's connections."""
        self._connection.close()

    # ---- jobs ------------------------------------------------------------------------------------------------

    def submit(self, request: SubmitRequest, *, away_s: float = 0.0) -> str:
        """Runs a pipeline; returns the job's id.

        The request gets a key if it has none. A request whose answer is lost is sent again: to a new leader where there
        is an election, else while no coordinator answers, for `away_s` (seconds). The key keeps that from starting a
        second job.
        """
        if request.key is None:
            request = request.model_copy(update={"key": _new_key()})
        return self._submitted("/jobs", request, away_s)

    def resubmit(self, job: str, from_savepoint: str, *, away_s: float = 0.0) -> str:
        """Runs the definition of an ended job again, from a savepoint; returns the new job's id. See `submit`."""
        body = ResubmitRequest(from_savepoint=from_savepoint, key=_new_key())
        return self._submitted(f"{_job(job)}/resubmit", body, away_s)

    def _submitted(self, path: str, body: BaseModel, away_s: float) -> str:
        retries = Retries(_POLL_BACKOFF, away_s, overruns=False)
        while True:
            try:
                return self._ask(Submitted, "POST", path, body, repeatable=True).job_id
            except UnreachableError:
                if not retries.pause():
                    raise

    def jobs(self) -> tuple[JobSummary, ...]:
        """Running jobs and the history, newest first."""
        return self._ask(JobList, "GET", "/jobs").jobs

    def figures(self) -> tuple[JobFigures, ...]:
        """Running jobs and the history, newest first, with their figures."""
        return self._ask(JobFiguresList, "GET", "/figures").jobs

    def status(self, job: str) -> JobStatus:
        """The status of a job."""
        return self._ask(JobStatus, "GET", _job(job))

    def bottleneck(self, job: str) -> Bottleneck:
        """Why a job is slow."""
        return self._ask(Bottleneck, "GET", f"{_job(job)}/bottleneck")

    def status_of_nodes(self, job: str, detailed: str | None = None) -> JobStatus:
        """The status of a job; only the node `detailed` has its subtasks and partitions. None: no node has."""
        node = "" if detailed is None else f"&node={quote(detailed, safe='')}"
        return self._ask(JobStatus, "GET", f"{_job(job)}?subtasks=false{node}")

    def checkpoints(self, job: str) -> tuple[CheckpointInfo, ...]:
        """A job's checkpoints, newest first."""
        return self._ask(CheckpointList, "GET", f"{_job(job)}/checkpoints").checkpoints

    def state(self, job: str) -> StateList:
        """The states of a job, as of its newest complete checkpoint."""
        return self._ask(StateList, "GET", f"{_job(job)}/state")

    def state_rows(self, job: str, query: StateQuery) -> StateRows:
        """Rows of the state of a node, as of the same checkpoint."""
        given = [("rows", str(query.rows)), *(("key", text) for text in query.key)]
        if query.state is not None:
            given.append(("state", query.state))
        return self._ask(StateRows, "GET", f"{_job(job)}/state/{quote(query.node, safe='')}?{urlencode(given)}")

    def exceptions(self, job: str) -> tuple[ExceptionInfo, ...]:
        """A job's failures, newest first."""
        return self._ask(ExceptionList, "GET", f"{_job(job)}/exceptions").exceptions

    def logs(self, job: str, lines: int = 1000) -> tuple[str, ...]:
        """The last log lines of a job's processes."""
        return self.log_lines(job, lines).lines

    def log_lines(self, job: str, lines: int = 1000, after: str | None = None) -> LogLines:
        """The last log lines of a job's processes behind a position (None: of all), and the position behind them."""
        behind = "" if after is None else f"&after={quote(after, safe='')}"
        return self._ask(LogLines, "GET", f"{_job(job)}/logs?lines={lines}{behind}")

    # ---- their output ----------------------------------------------------------------------------------------

    def transactions(self, job: str) -> TransactionList:
        """A job's open transactions, and the safe actions for each."""
        return self._ask(TransactionList, "GET", f"{_job(job)}/transactions")

    def end_transactions(self, job: str, request: EndTransactionsRequest) -> TransactionList:
        """Commits or aborts the open transactions of a job that is not running."""
        return self._ask(TransactionList, "POST", f"{_job(job)}/transactions", request)

    def dead_letters(self, job: str, request: DeadLettersRequest) -> DeadLetterList:
        """The newest dead letters of a job."""
        return self._ask(DeadLetterList, "POST", f"{_job(job)}/dead-letters", request)

    def redrive(self, job: str, request: RedriveRequest) -> Redriven:
        """Sends dead letters again, up to the request's limit."""
        return self._ask(Redriven, "POST", f"{_job(job)}/dead-letters/redrive", request)

    def audit(self, job: str) -> Trigger:
        """Starts an audit: reads a job's output back and compares it with the rows that the job wrote."""
        return self._ask(Trigger, "POST", f"{_job(job)}/audit")

    # ---- long operations -------------------------------------------------------------------------------------

    def savepoint(self, job: str, directory: str | None = None) -> Trigger:
        """Triggers a savepoint under this folder or URL, or in the coordinator's default location."""
        return self._ask(Trigger, "POST", f"{_job(job)}/savepoints", SavepointRequest(directory=directory))

    def checkpoint(self, job: str) -> Trigger:
        """Triggers a checkpoint."""
        return self._ask(Trigger, "POST", f"{_job(job)}/checkpoints")

    def stop(
        self, job: str, savepoint: str | None = None, *, drain: bool = False, within_ms: int | None = None
    ) -> Trigger:
        """Triggers a stop after a barrier, with a savepoint under this folder, or with a last checkpoint only. The job
        ends within that time (60 s), at its last complete checkpoint if it takes no other one."""
        body = StopRequest(savepoint=savepoint, drain=drain, within_ms=within_ms)
        return self._ask(Trigger, "POST", f"{_job(job)}/stop", body)

    def cancel(self, job: str) -> Trigger:
        """Triggers an immediate end of a job."""
        return self._ask(Trigger, "POST", f"{_job(job)}/cancel")

    def rescale(self, job: str, parallelism: int) -> Trigger:
        """Triggers a restart with another parallelism."""
        return self._ask(Trigger, "POST", f"{_job(job)}/rescale", RescaleRequest(parallelism=parallelism))

    def trigger(self, job: str, trigger_id: str) -> Trigger:
        """The status of an operation."""
        return self._ask(Trigger, "GET", f"{_job(job)}/triggers/{quote(trigger_id, safe='')}")

    # ---- the cluster -----------------------------------------------------------------------------------------

    def cluster(self) -> ClusterInfo:
        """Workers and slots."""
        return self._ask(ClusterInfo, "GET", "/cluster")

    def stacks(self, worker: str) -> str:
        """The stacks of all threads of a worker and of its slots."""
        return self._ask(WorkerStacks, "POST", f"/workers/{quote(worker, safe='')}/stacks").text

    def worker_logs(self, worker: str) -> str:
        """The newest lines that a worker and its slots have logged."""
        return self._ask(WorkerLogs, "GET", f"/workers/{quote(worker, safe='')}/logs").text

    def end_application(self, exit_code: int) -> ClusterInfo:
        """Records that the program of the cluster's application has ended."""
        body = ApplicationEnd(exit_code=exit_code)
        return self._ask(ClusterInfo, "POST", "/cluster/application", body, repeatable=True)

    def hold(self, seconds: float) -> ClusterInfo:
        """Announces that another job is about to be submitted: the cluster of one job does not end meanwhile."""
        return self._ask(ClusterInfo, "POST", "/cluster/hold", HoldRequest(seconds=seconds), repeatable=True)

    def health(self) -> Health:
        """Whether the coordinator answers."""
        return self._ask(Health, "GET", "/health")

    def dated_health(self) -> tuple[Health, str | None]:
        """As `health`, with the coordinator's time as HTTP's `Date` has it (whole seconds); None: it sent none."""
        response = self._connection.request("GET", "/v1/health", None, {}, repeatable=True)
        if not response.is_success:
            raise error_of(self._read(ErrorBody, response))
        return self._read(Health, response), response.headers.get("Date")

    def shutdown(self) -> ClusterInfo:
        """Shuts down the coordinator and its workers; returns the cluster's last state."""
        return self._ask(ClusterInfo, "DELETE", "/cluster")

    # ---- waiting ---------------------------------------------------------------------------------------------

    def wait(
        self, job: str, *, timeout_s: float | None = None, on_status: Callable[[JobStatus], object] | None = None
    ) -> JobStatus:
        """Waits until a job has ended, also across a restart of the coordinator.

        `on_status` receives every polled status. Raises ExternalError after `timeout_s`.
        """

        def look() -> JobStatus:
            status = self.status(job)
            if on_status is not None:
                on_status(status)
            return status

        return self._poll(look, lambda status: status.state in FINAL_STATES, f"job {job}", timeout_s)

    def wait_opened(self, job: str, *, timeout_s: float) -> JobStatus:
        """Waits until a job's sources and sinks are open, or it has ended. After `timeout_s` returns the current
        status."""
        deadline_s = time.monotonic() + timeout_s

        def is_settled(status: JobStatus) -> bool:
            # a coordinator of an earlier version does not report `opened`
            is_open = status.opened or status.attempt > 0
            return is_open or status.state in FINAL_STATES or time.monotonic() > deadline_s

        return self._poll(lambda: self.status(job), is_settled, f"job {job}", None)

    def wait_bottleneck(self, job: str, *, timeout_s: float) -> Bottleneck:
        """Why a job is slow; waits at most `timeout_s` for the figures of a job that has just begun."""
        deadline_s = time.monotonic() + timeout_s

        def has_figures(found: Bottleneck) -> bool:
            return found.kind != "too-early" or time.monotonic() > deadline_s

        return self._poll(lambda: self.bottleneck(job), has_figures, f"job {job}", None)

    def wait_trigger(
        self, trigger: Trigger, *, timeout_s: float | None = None, on_look: Callable[[Trigger], object] | None = None
    ) -> Trigger:
        """Waits until an operation has completed; `on_look` receives every polled status. Raises the operation's error,
        and ExternalError after `timeout_s`."""

        def look() -> Trigger:
            seen = self.trigger(trigger.job_id, trigger.trigger_id)
            if on_look is not None:
                on_look(seen)
            return seen

        if trigger.status == "in-progress":
            trigger = self._poll(
                look,
                lambda seen: seen.status != "in-progress",
                f"{trigger.kind} of job {trigger.job_id}",
                timeout_s,
            )
        if trigger.status == "failed":
            if trigger.error is None:
                raise ExternalError(f"{trigger.kind} of job {trigger.job_id} failed")
            raise error_of(trigger.error)
        return trigger

    def _poll(
        self, look: Callable[[], Model], ended: Callable[[Model], bool], what: str, timeout_s: float | None
    ) -> Model:
        answered_s = time.monotonic()
        polls = Retries(_POLL_BACKOFF, timeout_s)
        while True:
            try:
                seen = look()
                answered_s = time.monotonic()
                if ended(seen):
                    return seen
            except ExternalError as error:
                if not error.retry or time.monotonic() - answered_s > AWAY_SECONDS_MAX:
                    raise
            if not polls.pause():
                raise ExternalError(f"{what} has not ended within {timeout_s:g} s", retry=True)

    # ---- HTTP ------------------------------------------------------------------------------------------------

    def _ask(
        self, answer: type[Model], method: str, path: str, body: BaseModel | None = None, *, repeatable: bool = False
    ) -> Model:
        content = None if body is None else body.model_dump_json().encode()
        # also without a body: a browser cannot send this header across sites without a preflight
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        again = repeatable or method == "GET"
        response = self._connection.request(method, f"/v1{path}", content, headers, repeatable=again)
        if response.is_success:
            return self._read(answer, response)
        raise error_of(self._read(ErrorBody, response))

    def _read(self, model: type[Model], response: httpx.Response) -> Model:
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise UnreachableError(
                f"what answers at {self.url} is no headrace coordinator of this version "
                f"(HTTP {response.status_code} for {response.request.url.path})",
                remedy="check the address, and that both are of the same version",
            ) from error


def _new_key() -> str:
    return secrets.token_hex(16)


def _job(reference: str) -> str:
    if not reference:
        raise UserError("the job is not named", remedy="headrace list shows the jobs")
    return f"/jobs/{quote(reference, safe='')}"
