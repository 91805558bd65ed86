"""A cluster without processes behind the real REST API: what commands and clients are tested against.

It keeps jobs and operations in memory. An operation ends when it has been looked at `looks` times; `refuse` makes
the next call raise, `failing` lets operations end with an error. Nothing runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.types import ASGIApp

from headrace import __version__
from headrace.client.cluster_models import ClusterInfo, WorkerInfo
from headrace.client.errors import error_body
from headrace.client.figure_models import Bottleneck, JobFigures, PartitionLag
from headrace.client.http import Client
from headrace.client.models import (
    AuditReport,
    CheckpointInfo,
    CompletedCheckpoint,
    ExceptionInfo,
    JobStatus,
    JobSummary,
    LogLines,
    NodeStatus,
    SinkAudit,
    SubtaskState,
    Trigger,
    moment,
)
from headrace.client.output_models import (
    DeadLetterInfo,
    DeadLetterList,
    DeadLettersRequest,
    EndTransactionsRequest,
    Redriven,
    RedriveRequest,
    TransactionInfo,
    TransactionList,
)
from headrace.client.requests import SubmitRequest
from headrace.client.state_models import StateList, StateQuery, StateRows
from headrace.coordinator.dispatch.job_reference import NamedJob, find_job
from headrace.coordinator.monitoring.exposition import metrics_text
from headrace.coordinator.monitoring.values import JobValues
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.rest.checkpoint_status import retained_checkpoints
from headrace.coordinator.rest.server import KEEP_ALIVE_SECONDS
from headrace.coordinator.rest.service import JobConflictError, JobNotFoundError
from headrace.coordinator.rest.state_documents import state_list, state_rows
from headrace.core.errors import Domain, HeadraceError, UserError
from headrace.spec.reading.read import pipeline_from_dict
from support.processes.running import wait_until

TOKEN, METRICS_TOKEN = "the token of tests", "the metrics token of tests"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
STARTED_MS = 1_769_850_000_123
CHECKPOINT_PATH = "/c/3"


@dataclass
class ScriptedJob:
    """One job: what was submitted, and how it stands. storage: its folder, for what is read from there."""

    request: SubmitRequest
    name: str
    parallelism: int
    state: str = "RUNNING"
    failure: str | None = None
    savepoint: str | None = None
    alarm: str | None = None
    has_checkpoint: bool = True
    storage: str | None = None
    log: list[str] = field(default_factory=list)


@dataclass
class _Operation:
    trigger: Trigger
    looks: int
    then: tuple[str, str | int | None]


class ScriptedCluster:
    """A ClusterService in memory."""

    def __init__(self, looks: int = 2) -> None:
        self.jobs_by_id: dict[str, ScriptedJob] = {}
        self.looks = looks
        self.refuse: HeadraceError | None = None
        self.failing: HeadraceError | None = None
        self.ended = threading.Event()
        self.application_exit_code: int | None = None
        self.stop_within_ms: int | None = None
        """The bound of the newest stop."""
        self.note: str | None = None
        """What operations are answered with beside their path."""
        self.held_s = 0.0
        self.checkpoints_taken = 0
        self.before_status: Callable[[], None] = lambda: None
        """Called before each answer about a job's status."""
        self._operations: dict[str, _Operation] = {}
        self.output = ScriptedOutput(self)

    async def submit(self, request: SubmitRequest) -> str:
        self._refuse()
        for job, known in self.jobs_by_id.items():
            if request.key is not None and known.request.key == request.key:
                return job
        pipeline = pipeline_from_dict(request.file_form())
        if not request.allow_duplicate and any(self._runs(job, pipeline.name) for job in self.jobs_by_id.values()):
            raise JobConflictError(f"a job called {pipeline.name!r} runs", remedy="give --allow-duplicate")
        job = self.add(pipeline.name)
        self.jobs_by_id[job] = ScriptedJob(request, pipeline.name, pipeline.parallelism)
        return job

    def add(self, name: str) -> str:
        """Adds a running job of this name; returns its id."""
        job = f"{len(self.jobs_by_id):02x}{'a1' * 5}"
        self.jobs_by_id[job] = ScriptedJob(SubmitRequest(pipeline={}), name, 1)
        return job

    async def resubmit(self, reference: str, from_savepoint: str, key: str | None = None) -> str:
        request = self._job(reference).request
        return await self.submit(request.model_copy(update={"from_savepoint": from_savepoint, "key": key}))

    async def jobs(self) -> tuple[JobSummary, ...]:
        self._refuse()
        return tuple(
            JobSummary(job_id=job, name=found.name, state=found.state, started_at=moment(STARTED_MS))
            for job, found in reversed(self.jobs_by_id.items())
        )

    async def figures(self) -> tuple[JobFigures, ...]:
        lag = PartitionLag(source="numbers", topic="in", partition=0, lag=5)
        return tuple(
            JobFigures(**each.model_dump(), rows_in_per_s=100.0, rows_out_per_s=50.0, lag=5, partitions=(lag,))
            for each in await self.jobs()
        )

    async def job(self, reference: str, *, detailed: frozenset[str] | None = None) -> JobStatus:
        self._refuse()
        self.before_status()
        job = self._id(reference)
        found = self.jobs_by_id[job]
        for operation in self._operations.values():
            self._look(operation)
        subtasks = tuple(SubtaskState(subtask=i, worker="worker-1", busy=0.5) for i in range(found.parallelism))
        node = NodeStatus(node="numbers", kind="source", parallelism=found.parallelism, rows_out=1_234, lag=5)
        newest = CompletedCheckpoint(epoch=3, completed_at=moment(STARTED_MS), path=CHECKPOINT_PATH, bytes=10)
        return JobStatus(
            job_id=job,
            name=found.name,
            state=found.state,
            attempt=1,
            parallelism=found.parallelism,
            opened=True,
            nodes=(node.model_copy(update={"subtasks": subtasks}),),
            checkpoint=newest if found.has_checkpoint else None,
            failure=found.failure,
            started_at=moment(STARTED_MS),
            savepoint=found.savepoint,
            alarm=found.alarm,
        )

    async def savepoint(self, reference: str, directory: str | None) -> Trigger:
        return self._begin(reference, "savepoint", f"{directory or '/savepoints'}/savepoint-1", ("savepoint", None))

    async def checkpoint(self, reference: str) -> Trigger:
        self.checkpoints_taken += 1
        return self._begin(reference, "checkpoint", None, ("savepoint", None))

    async def stop(
        self, reference: str, savepoint: str | None, *, drain: bool, within_ms: int | None = None
    ) -> Trigger:
        self.stop_within_ms = within_ms
        path = "/checkpoints/7" if savepoint is None else f"{savepoint}/{'drained' if drain else 'savepoint'}-1"
        return self._begin(reference, "stop", path, ("state", "FINISHED"))

    async def cancel(self, reference: str) -> Trigger:
        return self._begin(reference, "cancel", None, ("state", "CANCELED"))

    async def rescale(self, reference: str, parallelism: int) -> Trigger:
        return self._begin(reference, "rescale", None, ("parallelism", parallelism))

    async def trigger(self, reference: str, trigger_id: str) -> Trigger:
        self._id(reference)
        if trigger_id not in self._operations:
            raise JobNotFoundError(f"no operation {trigger_id!r}")
        operation = self._operations[trigger_id]
        self._look(operation)
        return operation.trigger

    async def bottleneck(self, reference: str) -> Bottleneck:
        return Bottleneck(
            job_id=self._id(reference),
            name="flights",
            kind="slow-sink",
            verdict="sink out (kafka) is slow",
            evidence=("events waits for room",),
            remedy="raise its parallelism",
            node="out",
        )

    async def checkpoints(self, reference: str) -> tuple[CheckpointInfo, ...]:
        storage = self._job(reference).storage
        if storage is not None:
            return retained_checkpoints(storage)
        return (
            CheckpointInfo(epoch=4, attempt=1, status="failed", failure="the disk is full", started_at=moment(0)),
            CheckpointInfo(
                epoch=3, attempt=1, status="committed", completed_at=moment(STARTED_MS), duration_ms=12, bytes=3_000
            ),
        )

    async def state(self, reference: str) -> StateList:
        return state_list(self._storage(reference), STARTED_MS + 5_000)

    async def state_rows(self, reference: str, query: StateQuery) -> StateRows:
        return state_rows(self._storage(reference), query, STARTED_MS + 5_000)

    def _storage(self, reference: str) -> str:
        storage = self._job(reference).storage
        assert storage is not None, "the test gives the job storage"
        return storage

    async def exceptions(self, reference: str) -> tuple[ExceptionInfo, ...]:
        self._id(reference)
        return (ExceptionInfo(at=moment(STARTED_MS), attempt=1, message="bad row", domain=Domain.USER, place="t/0/7"),)

    async def logs(self, reference: str, lines: int, after: str | None) -> LogLines:
        log = self._job(reference).log
        return LogLines(lines=tuple(log[int(after or 0) :][-lines:]), position=str(len(log)))

    async def cluster(self) -> ClusterInfo:
        self._refuse()
        worker = WorkerInfo(worker="worker-1", host="127.0.0.1", pid=1, slots=4, slots_free=3, version=__version__)
        return ClusterInfo(
            cluster_id="c",
            version=__version__,
            workers=(worker,),
            slots=4,
            slots_free=3,
            jobs_running=1,
            application_exit_code=self.application_exit_code,
            held=self.held_s > 0,
        )

    async def stacks(self, worker: str) -> str:
        self._refuse()
        return f"== supervisor of {worker}"

    async def worker_logs(self, worker: str) -> str:
        self._refuse()
        return f"== worker {worker}"

    async def end_application(self, exit_code: int) -> None:
        self._refuse()
        self.application_exit_code = exit_code

    async def hold(self, seconds: float) -> None:
        self._refuse()
        self.held_s = seconds

    async def metrics(self) -> str:
        return metrics_text([JobValues(await self.job(job), checkpoint_age_s=1.5) for job in self.jobs_by_id])

    async def shutdown(self) -> None:
        self.ended.set()

    def _begin(self, reference: str, kind: str, path: str | None, then: tuple[str, str | int | None]) -> Trigger:
        self._refuse()
        job = self._id(reference)
        if self.jobs_by_id[job].state != "RUNNING":
            raise JobConflictError(f"job {job} has ended: {self.jobs_by_id[job].state}")
        trigger = Trigger.model_validate({"trigger_id": f"t{len(self._operations)}", "job_id": job, "kind": kind})
        done = trigger.model_copy(update={"path": path})
        self._operations[trigger.trigger_id] = _Operation(done, self.looks, then)
        return trigger

    def _look(self, operation: _Operation) -> None:
        operation.looks -= 1
        if operation.looks > 0 or operation.trigger.status != "in-progress":
            return
        if self.failing is not None:
            update: dict[str, object] = {"status": "failed", "path": None, "error": error_body(self.failing)}
        else:
            update = {"status": "completed", "progress": self.note}
            name, value = operation.then
            job = operation.trigger.job_id
            if value is not None:
                self.jobs_by_id[job] = replace(self.jobs_by_id[job], **{name: value})  # type: ignore[arg-type]
        operation.trigger = operation.trigger.model_copy(update=update)

    def _id(self, reference: str) -> str:
        known = [NamedJob(job, found.name, found.state == "RUNNING") for job, found in self.jobs_by_id.items()]
        try:
            return find_job(known, reference)
        except UserError as error:
            raise JobNotFoundError(error.message, remedy=error.remedy) from error

    def _job(self, reference: str) -> ScriptedJob:
        return self.jobs_by_id[self._id(reference)]

    def _runs(self, job: ScriptedJob, name: str) -> bool:
        return job.name == name and job.state == "RUNNING"

    def _refuse(self) -> None:
        refuse, self.refuse = self.refuse, None
        if refuse is not None:
            raise refuse


class ScriptedOutput:
    """An OutputService in memory. `open`: what the jobs have open; `asked`: what was asked for."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._cluster = cluster
        self.open: tuple[TransactionInfo, ...] = ()
        self.asked: list[EndTransactionsRequest] = []
        self.audits: tuple[SinkAudit, ...] = ()
        self.letters: tuple[DeadLetterInfo, ...] = ()

    async def transactions(self, reference: str) -> TransactionList:
        job = self._cluster._id(reference)
        return TransactionList(transactions=tuple(each for each in self.open if each.job_id == job))

    async def end_transactions(self, reference: str, request: EndTransactionsRequest) -> TransactionList:
        self._cluster._refuse()
        self.asked.append(request)
        found = await self.transactions(reference)
        return found.model_copy(update={"note": "done" if request.yes else "dry run"})

    async def dead_letters(self, reference: str, request: DeadLettersRequest) -> DeadLetterList:
        self._cluster._id(reference)
        letters = [each for each in self.letters if request.node in {None, each.node}]
        return DeadLetterList(letters=tuple(letters[-request.limit :]))

    async def redrive(self, reference: str, request: RedriveRequest) -> Redriven:
        self._cluster._id(reference)
        waiting = len(self.letters)
        sent = min(waiting, 2)
        if request.yes:
            self.letters = self.letters[sent:]
        return Redriven(node=request.node, to={request.to or "in": sent}, more=waiting > sent, done=request.yes)

    async def audit(self, reference: str) -> Trigger:
        trigger = self._cluster._begin(reference, "audit", None, ("state", None))
        report = AuditReport(job_id=trigger.job_id, sinks=self.audits)
        operation = self._cluster._operations[trigger.trigger_id]
        operation.trigger = operation.trigger.model_copy(update={"audit": report, "progress": "out: 3 rows read"})
        return trigger


@contextmanager
def serving(service: ScriptedCluster, token: str = TOKEN, port: int = 0) -> Iterator[str]:
    """Serves it on loopback; gives the URL. Clients show the token."""
    with serving_app(rest_app(service, Tokens(token, METRICS_TOKEN)), port) as url:
        yield url


@contextmanager
def serving_app(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serves any application on loopback; gives the URL."""
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        # as in a coordinator: the extra of the page installs others, which uvicorn would choose
        http="h11",
        loop="asyncio",
        log_level="critical",
        ws="none",
        lifespan="off",
        interface="asgi3",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="rest")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server to listen")
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def client_of(service: ScriptedCluster, token: str = TOKEN) -> Iterator[Client]:
    """A client of it, over HTTP."""
    with serving(service, token) as url, Client(url, token) as client:
        yield client
