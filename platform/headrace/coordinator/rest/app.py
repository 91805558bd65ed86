"""The coordinator's REST API, `/v1`: HTTP in, `ClusterService` calls, documents of `client.models` out.

It owns routes, limits of a request, and the status of an error. It decides nothing about jobs.

A request passes three checks before anything of it is parsed: its token (`access`), its origin (`refusal`), and the
size of its body. A page that reaches the API under a name of its own (DNS rebinding) has no token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headrace import __version__
from headrace.client.cluster_models import ApplicationEnd, ClusterInfo, Health, HoldRequest, WorkerLogs, WorkerStacks
from headrace.client.errors import error_body
from headrace.client.figure_models import Bottleneck, JobFiguresList
from headrace.client.models import (
    LOG_LINES_MAX,
    CheckpointList,
    ErrorBody,
    ExceptionList,
    JobList,
    JobStatus,
    LogLines,
    ProblemBody,
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
from headrace.client.requests import (
    CODE_BYTES_MAX,
    RescaleRequest,
    ResubmitRequest,
    SavepointRequest,
    StopRequest,
    SubmitRequest,
)
from headrace.client.state_models import ROWS_MAX, StateList, StateQuery, StateRows
from headrace.coordinator.monitoring.exposition import MEDIA_TYPE
from headrace.coordinator.rest.access.tokens import Tokens, denial
from headrace.coordinator.rest.service import ClusterService, JobConflictError, JobNotFoundError, OutputService
from headrace.core.errors import Domain, ExternalError, HeadraceError, UserError

BODY_BYTES_MAX = CODE_BYTES_MAX * 3 // 2
"""Base64 encodes three bytes as four; the rest is for the pipeline."""
ACCEPTED = 202

_BEARER = HTTPBearer(auto_error=False, description="The cluster's token; health and metrics take the metrics token too")
"""Only for the OpenAPI document: `access` decides."""

_ERRORS: dict[int | str, dict[str, object]] = {
    400: {"model": ErrorBody, "description": "wrong use, or an invalid pipeline"},
    401: {"model": ErrorBody, "description": "no token, or not the cluster's"},
    403: {
        "model": ErrorBody,
        "description": "a request of a page of another site, or the metrics token for another path",
    },
    404: {"model": ErrorBody, "description": "no such job or operation"},
    409: {"model": ErrorBody, "description": "the state of the job or cluster does not allow it"},
    503: {"model": ErrorBody, "description": "storage or workers are not available"},
}


def rest_app(service: ClusterService, tokens: Tokens) -> FastAPI:
    """Returns the application. `tokens`: clients must send one as `Authorization: Bearer ..`."""
    app = FastAPI(
        title="Headrace",
        version="v1",
        description="Jobs of a Headrace cluster. A long operation returns a trigger: poll it until it is final.",
        docs_url=None,  # swagger's page loads scripts from a CDN
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    output = _output_routes(lambda: service.output)
    routers = (_jobs(service), _operations(service), _history(service), output, _cluster(service), _monitoring(service))
    for router in routers:
        app.include_router(router, prefix="/v1", dependencies=[Security(_BEARER)], responses=_ERRORS)
    _answer_errors(app)

    @app.middleware("http")
    async def doors(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        return refused(request, tokens) or await call_next(request)

    return app


def _jobs(service: ClusterService) -> APIRouter:
    router = APIRouter(tags=["jobs"])

    @router.post("/jobs", operation_id="submit", status_code=201)
    async def submit(body: SubmitRequest) -> Submitted:
        """Run a pipeline."""
        return Submitted(job_id=await service.submit(body))

    @router.get("/jobs", operation_id="list")
    async def jobs() -> JobList:
        """Running jobs and the history, newest first."""
        return JobList(jobs=await service.jobs())

    @router.get("/jobs/{job}", operation_id="status")
    async def status(
        job: str,
        *,
        subtasks: Annotated[bool, Query(description="false: nodes without subtasks and partitions")] = True,
        node: Annotated[list[str] | None, Query(description="with subtasks=false: nodes that have them still")] = None,
    ) -> JobStatus:
        """The status of a job. JOB: an id, a unique prefix of one, or the name of one running job."""
        if subtasks:
            return await service.job(job)
        # for those who look often: subtasks and partitions are most of the answer
        detailed = frozenset(node or ())
        job_status = await service.job(job, detailed=detailed)
        # a job that has ended keeps its last status whole
        bare = {"subtasks": (), "partitions": ()}
        nodes = (each if each.node in detailed else each.model_copy(update=bare) for each in job_status.nodes)
        return job_status.model_copy(update={"nodes": tuple(nodes)})

    @router.get("/figures", operation_id="figures")
    async def figures() -> JobFiguresList:
        """Running jobs and the history, newest first, with their rates, lag and last checkpoint."""
        return JobFiguresList(jobs=await service.figures())

    @router.get("/jobs/{job}/bottleneck", operation_id="bottleneck")
    async def bottleneck(job: str) -> Bottleneck:
        """Why a job is slow: its bottleneck, with the evidence and a remedy."""
        return await service.bottleneck(job)

    @router.post("/jobs/{job}/resubmit", operation_id="resubmit", status_code=201)
    async def resubmit(job: str, body: ResubmitRequest) -> Submitted:
        """Run the definition of an ended job again, from a savepoint."""
        return Submitted(job_id=await service.resubmit(job, body.from_savepoint, body.key))

    return router


def _operations(service: ClusterService) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.post("/jobs/{job}/savepoints", operation_id="savepoint", status_code=ACCEPTED)
    async def savepoint(job: str, body: SavepointRequest) -> Trigger:
        """Take a savepoint."""
        return await service.savepoint(job, body.directory)

    @router.post("/jobs/{job}/checkpoints", operation_id="checkpoint", status_code=ACCEPTED)
    async def checkpoint(job: str) -> Trigger:
        """Take a checkpoint now."""
        return await service.checkpoint(job)

    @router.post("/jobs/{job}/stop", operation_id="stop", status_code=ACCEPTED)
    async def stop(job: str, body: StopRequest) -> Trigger:
        """Stop with a last checkpoint or savepoint, from which the job can be continued."""
        return await service.stop(job, body.savepoint, drain=body.drain, within_ms=body.within_ms)

    @router.post("/jobs/{job}/cancel", operation_id="cancel", status_code=ACCEPTED)
    async def cancel(job: str) -> Trigger:
        """End a job at once. Its checkpoints stay."""
        return await service.cancel(job)

    @router.post("/jobs/{job}/rescale", operation_id="rescale", status_code=ACCEPTED)
    async def rescale(job: str, body: RescaleRequest) -> Trigger:
        """Continue the job with another parallelism."""
        return await service.rescale(job, body.parallelism)

    @router.get("/jobs/{job}/triggers/{trigger_id}", operation_id="trigger")
    async def trigger(job: str, trigger_id: str) -> Trigger:
        """The status of an operation."""
        return await service.trigger(job, trigger_id)

    return router


def _history(service: ClusterService) -> APIRouter:
    router = APIRouter(tags=["history"])

    @router.get("/jobs/{job}/checkpoints", operation_id="checkpoints")
    async def checkpoints(job: str) -> CheckpointList:
        """Checkpoints, newest first."""
        return CheckpointList(checkpoints=await service.checkpoints(job))

    @router.get("/jobs/{job}/state", operation_id="state")
    async def state(job: str) -> StateList:
        """The states of a job as of its newest complete checkpoint."""
        return await service.state(job)

    @router.get("/jobs/{job}/state/{node}", operation_id="state_rows")
    async def state_rows(
        job: str,
        node: str,
        *,
        state: Annotated[str | None, Query(description="its rows as they are kept; default: the step's output")] = None,
        key: Annotated[list[str] | None, Query(description="COLUMN=VALUE of the key, or of a part of it")] = None,
        rows: Annotated[int, Query(ge=1, le=ROWS_MAX)] = 100,
    ) -> StateRows:
        """Rows of the state of a step or source: those of a key, or the first ones."""
        return await service.state_rows(job, StateQuery(node, state, tuple(key or ()), rows))

    @router.get("/jobs/{job}/exceptions", operation_id="exceptions")
    async def exceptions(job: str) -> ExceptionList:
        """Failures, newest first."""
        return ExceptionList(exceptions=await service.exceptions(job))

    @router.get("/jobs/{job}/logs", operation_id="logs")
    async def logs(
        job: str,
        lines: Annotated[int, Query(ge=1, le=LOG_LINES_MAX)] = 1000,
        after: Annotated[str | None, Query(description="`position` of an earlier answer: all lines behind it")] = None,
    ) -> LogLines:
        """The last lines that the job's processes logged."""
        return await service.logs(job, lines, after)

    return router


def _cluster(service: ClusterService) -> APIRouter:
    router = APIRouter(tags=["cluster"])

    @router.get("/cluster", operation_id="cluster")
    async def cluster() -> ClusterInfo:
        """Workers and slots."""
        return await service.cluster()

    @router.post("/cluster/application", operation_id="end_application")
    async def end_application(body: ApplicationEnd) -> ClusterInfo:
        """Record that the program of the application that this cluster serves has ended."""
        await service.end_application(body.exit_code)
        return await service.cluster()

    @router.post("/cluster/hold", operation_id="hold")
    async def hold(body: HoldRequest) -> ClusterInfo:
        """Announce another job: a cluster that serves one job does not end with it meanwhile."""
        await service.hold(body.seconds)
        return await service.cluster()

    @router.post("/workers/{worker}/stacks", operation_id="stacks")
    async def stacks(worker: str) -> WorkerStacks:
        """What the threads of a worker and of its slots do now."""
        return WorkerStacks(worker=worker, text=await service.stacks(worker))

    @router.get("/workers/{worker}/logs", operation_id="worker_logs")
    async def worker_logs(worker: str) -> WorkerLogs:
        """The newest lines that a worker and its slots have logged."""
        return WorkerLogs(worker=worker, text=await service.worker_logs(worker))

    @router.delete("/cluster", operation_id="shutdown", status_code=ACCEPTED)
    async def shutdown() -> ClusterInfo:
        """End the coordinator and its workers; running jobs continue when it is started again."""
        last = await service.cluster()
        await service.shutdown()
        return last

    return router


def _monitoring(service: ClusterService) -> APIRouter:
    """Routes that the metrics token may read, too."""
    router = APIRouter(tags=["monitoring"])

    @router.get("/health", operation_id="health")
    async def health() -> Health:
        """Whether the coordinator answers."""
        return Health(version=__version__)

    @router.get("/metrics", operation_id="metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """The cluster and its running jobs in Prometheus' text format."""
        return PlainTextResponse(await service.metrics(), media_type=MEDIA_TYPE)

    return router


def refused(request: Request, tokens: Tokens) -> Response | None:
    """Returns the answer to a request that is refused by its head; None: it is allowed."""
    method, path = request.method, request.url.path
    denied = denial(method, path, request.headers.get("authorization", ""), tokens)
    found = denied or refusal(method, request.headers)
    return _body_refused(request) if found is None else _error(found.status, found.error)


def _body_refused(request: Request) -> Response | None:
    """Refuses a body that is too large or of unknown length, before it is read."""
    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers:
        return _error(411, UserError("the request does not say how long it is", remedy="send Content-Length"))
    if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
        text = f"the request has {length} bytes, and at most {BODY_BYTES_MAX:,} are taken"
        return _error(413, UserError(text, remedy="install large libraries on the workers"))
    return None


# ---- errors ------------------------------------------------------------------------------------------------------


def _answer_errors(app: FastAPI) -> None:
    @app.exception_handler(HeadraceError)
    async def headrace_error(_: Request, error: HeadraceError) -> JSONResponse:
        return _error(_status(error), error)

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> JSONResponse:
        problems = tuple(
            ProblemBody(message=item["msg"], path=".".join(str(part) for part in item["loc"]))
            for item in error.errors()
        )
        message = "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
        return _json(400, ErrorBody(message=f"not a valid request: {message}", domain=Domain.USER, problems=problems))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        remedy = "GET /v1/openapi.json lists what there is" if error.status_code in {404, 405} else None
        message = f"{request.method} {request.url.path}: {error.detail}"
        return _json(error.status_code, ErrorBody(message=message, domain=Domain.USER, remedy=remedy))

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        # the server logs the trace; a client must not see it, nor an internal error's text
        return _json(500, ErrorBody(message=f"internal error: {type(error).__name__}", domain=Domain.INTERNAL))


def _status(error: HeadraceError) -> int:
    match error:
        case JobNotFoundError():
            return 404
        case JobConflictError():
            return 409
        case UserError():
            return 400
        case ExternalError():
            return 503
        case _:
            return 500


def _error(status: int, error: HeadraceError) -> JSONResponse:
    return _json(status, error_body(error))


def _json(status: int, body: ErrorBody) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(body.model_dump(mode="json"), status, headers)


def _output_routes(output: Callable[[], OutputService]) -> APIRouter:
    """Returns the router of the output of jobs: open transactions, audits, dead letters. `output` is called for each
    request."""
    router = APIRouter(tags=["output"])

    @router.get("/jobs/{job}/transactions", operation_id="transactions")
    async def transactions(job: str) -> TransactionList:
        """Open transactions of a job, and what may safely be done with each."""
        return await output().transactions(job)

    @router.post("/jobs/{job}/transactions", operation_id="end_transactions")
    async def end_transactions(job: str, body: EndTransactionsRequest) -> TransactionList:
        """Commit or abort open transactions of a job that does not run; without `yes`: report what would be done."""
        return await output().end_transactions(job, body)

    @router.post("/jobs/{job}/audit", operation_id="audit", status_code=202)
    async def audit(job: str) -> Trigger:
        """Read the output of a job back and compare it with the rows that the job committed."""
        return await output().audit(job)

    @router.post("/jobs/{job}/dead-letters", operation_id="dead_letters")
    async def dead_letters(job: str, body: DeadLettersRequest) -> DeadLetterList:
        """The newest dead letters of a job."""
        return await output().dead_letters(job, body)

    @router.post("/jobs/{job}/dead-letters/redrive", operation_id="redrive")
    async def redrive(job: str, body: RedriveRequest) -> Redriven:
        """Send dead letters again, each once; without `yes`: only report which would be sent."""
        return await output().redrive(job, body)

    return router


_OWN_SITE = {"same-origin", "none"}
"""`none`: the user navigated directly, for example by a typed address."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status and the reason of a refused request."""

    status: int
    error: UserError


def refusal(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Returns the refusal of a request that a web page of another origin makes a user's browser send, or None.

    headers   by lower-case name

    A page may send simple requests (GET, HEAD, and POST with a form's content type) without a preflight request, to any
    address that the browser reaches, including loopback. The page cannot read the responses, but the requests have
    their effects. Browsers identify the page in `Origin` and `Sec-Fetch-Site`, which no script can change. All other
    requests need a preflight request, which this server never accepts: therefore a POST has to be JSON.

    See "Cross-Site Request Forgery Prevention" of OWASP, and Fetch Metadata (W3C).
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _OWN_SITE and not _navigates(method, headers):
        return Refusal(403, UserError(f"a web page of another site sent this request ({site})", remedy=_REMEDY))
    if origin is not None and _authority(origin) != headers.get("host"):
        return Refusal(403, UserError(f"a web page of {origin} sent this request", remedy=_REMEDY))
    if method == "POST" and not _is_json(headers.get("content-type", "")):
        text = "a POST request has to say `Content-Type: application/json`"
        return Refusal(415, UserError(text, remedy="also where it has no body: browsers let no other page send that"))
    return None


_REMEDY = "requests of browsers are answered for this address's own pages only"


def _navigates(method: str, headers: Mapping[str, str]) -> bool:
    """Whether the user followed a link. That is allowed: it changes nothing, and the page with the link cannot read the
    response."""
    return method in {"GET", "HEAD"} and headers.get("sec-fetch-mode") == "navigate"


def _authority(origin: str) -> str:
    """Returns `host:port` of an origin; for the opaque origin `null` it returns no valid host."""
    return origin.partition("://")[2]


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
