"""From a pipeline and a user's options to a running replay: refusals, its identity, its parallelism.

Errors are raised before Spark starts, where that is possible. One of them: a folder of the driver's host cannot be a
job's storage, because executors on other hosts cannot read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.paths import job_url
from headrace.checkpoint.savepoints.savepoint import find
from headrace.core.clock import SystemClock
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.core.source_state import AppliedFloor
from headrace.execution.connector_messages import OpenRequest
from headrace.execution.origin import Origin, OriginWish, find_origin
from headrace.execution.planning import JobPlans
from headrace.plan.logical import LogicalPlan, plan_logical
from headrace.spark.cluster.cluster_settings import EXECUTOR, is_kubernetes, mounts, with_defaults
from headrace.spark.cluster.kubernetes_pods import await_executors
from headrace.spark.cluster.progress import Tell
from headrace.spark.cluster.session import session
from headrace.spark.driver.exchange import DataFrameExchange, Exchange, RddExchange
from headrace.spark.driver.publication import Say
from headrace.spark.driver.replay import Replay, ReplayOutcome, ReplayWish, require_same_logs, resolve_splits
from headrace.spark.driver.unpublished import unpublished_job
from headrace.spark.driver_machine.epoch import Splits
from headrace.spark.launch.bounds import bounded
from headrace.spark.launch.identity import replay_job, replay_key
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BackEnd = Literal["rdd", "dataframe"]
BACK_ENDS: Mapping[str, BackEnd] = {"rdd": "rdd", "dataframe": "dataframe"}
"""Back ends by the names that a user may write."""
_LOCAL, _STANDALONE = "local", "spark://"
_VOLUMES = (
    "mount a volume there in all pods: --conf spark.kubernetes.{driver,executor}.volumes.persistentVolumeClaim.NAME."
    "{mount.path,options.claimName}"
)
_HERE = {"localhost", "127.0.0.1", "[::1]"}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The user's options.

    begin, end            where sources begin and end; end may be the path of a savepoint: exactly its positions
    savepoint             folder for a savepoint at the end; final: close every window first
    origin                the state to start from
    master, conf          of Spark; master None: spark-submit's, else all cores of this host
    python_path           import path entries for the user's functions
    publish               result rows are published to the sinks; else they stay staged, and every replay is a new job
    open_end              the end closes no window, with or without a savepoint
    storage               folder of the journal and of staged rows; None: the pipeline's checkpoint storage
    allow_repeated        publishes the decided rows of an earlier run although a sink may no longer know which of them
                          it has
    allow_local_storage   a storage folder is a mount that all executors have
    """

    begin: str | None = None
    end: str | None = None
    savepoint: str | None = None
    final: bool = False
    origin: OriginWish | None = None
    floors: tuple[AppliedFloor, ...] = ()
    parallelism: int | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    back_end: BackEnd = "rdd"
    python_path: tuple[str, ...] = ()
    publish: bool = True
    open_end: bool = False
    storage: str | None = None
    allow_local_storage: bool = False
    allow_repeated: bool = False

    def require_consistent(self) -> None:
        """Raises UserError if two options contradict each other."""
        if self.final and self.savepoint is None:
            raise UserError("--drain says how to end with a savepoint", remedy="give --savepoint DIR too")
        if self.origin is not None and self.begin is not None:
            raise UserError("--from and --from-savepoint both say where to begin", remedy="give one of them")

    def require_reachable(
        self,
        master: str,
        storage: str,
        *,
        conf: Mapping[str, str] | None = None,
        roles: tuple[str, ...] = (EXECUTOR,),
    ) -> None:
        """Raises UserError if executors of that master cannot reach the job's storage. storage: its checkpoints.

        conf    the effective settings of Spark; None: the user's, with Spark's defaults file
        roles   whose pods are meant, on Kubernetes
        """
        if not self.allow_local_storage:
            mounted = mounts(roles, with_defaults(self.conf) if conf is None else conf)
            require_reachable(master, {"checkpoint storage": storage, "--savepoint": self.savepoint}, mounted)

    def subtasks(self, plans: JobPlans, exchange: Exchange) -> int:
        """Returns the default parallelism of nodes: the user's, else the number of tasks that the cluster runs."""
        return min(self.parallelism or exchange.parallelism, plans.model(1).max_parallelism)


def run_replay(
    pipeline: Pipeline, options: ReplayOptions, home: Home, say: Say, tell: Tell | None = None
) -> ReplayOutcome:
    """Replays a pipeline in a new Spark session. tell: receives lines of progress.

    Raises UserError, ExternalError.
    """
    prepared = prepare(pipeline, options, home)
    with own_exchange(f"headrace replay {pipeline.name}", options, prepared.storage, tell) as exchange:
        return prepared.replay(exchange, say).run()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A replay that can run: its plans, its job, its storage. The origin is found once the parallelism is known."""

    plans: JobPlans
    options: ReplayOptions
    storage: str
    job: str
    end: Manifest | None = None
    """The savepoint at whose positions the sources end."""

    def replay(self, exchange: Exchange, say: Say, *, splits: Splits | None = None) -> Replay:
        """Returns the replay on an exchange.

        splits   the result of `resolve`; None: resolved when it runs
        """
        options = self.options
        parallelism = options.subtasks(self.plans, exchange)
        wish = ReplayWish(
            job=self.job,
            storage=job_url(self.storage, self.job),
            parallelism=parallelism,
            savepoint=options.savepoint,
            final=options.final,
            origin=self._origin(parallelism),
            accepted_topics=() if options.origin is None else options.origin.accepted_topics,
            floors=options.floors,
            python_path=options.python_path,
            publish=options.publish,
            open_end=options.open_end,
            allow_repeated=options.allow_repeated,
            splits=splits,
            end=self.end,
        )
        return Replay(self.plans, wish, exchange, SystemClock(), say=say)

    def require_reachable(self, master: str, conf: Mapping[str, str]) -> None:
        """Raises UserError if executors of that master cannot reach the job's storage. conf: the effective settings."""
        self.options.require_reachable(master, self.storage, conf=conf)

    def resolve(self) -> Splits:
        """Resolves the splits to read, so that several engines read the same. Checks no sink. Raises UserError,
        ExternalError.
        """
        found = resolve_splits(OpenRequest(job=self.job, pipeline=self.plans.file_form(1), known={}, sinks=False))
        require_same_logs(found, self.end)
        return found

    def _origin(self, parallelism: int) -> Origin | None:
        if self.options.origin is None:
            return None
        return find_origin(self.options.origin, self.plans, parallelism, SystemClock().now_ms())


def prepare(pipeline: Pipeline, options: ReplayOptions, home: Home) -> Prepared:
    """Prepares a replay. Raises UserError for a pipeline that cannot be replayed."""
    options.require_consistent()
    require_replayable(plan_logical(pipeline))
    end = options.end
    kept = find(end).manifest if end and "/" in end else None
    document = bounded(pipeline, begin=options.begin, end=end if kept is None else kept)
    model = pipeline_from_dict(document)
    storage = options.storage or model.checkpoint.storage or str(home.checkpoints)
    asked = {
        "savepoint": options.savepoint,
        "final": options.final,
        "origin": None if options.origin is None else options.origin.key,
    }
    key = replay_key(document, asked, options.floors)
    job = replay_job(storage, model.name, key) if options.publish else unpublished_job(model.name, key)
    return Prepared(JobPlans(document), options, storage, job, kept)


def require_replayable(logical: LogicalPlan) -> None:
    """Raises UserError that names every node whose result depends on more than the log, and why."""
    reasons = [f"  {node.name}: {reason}" for node in logical.nodes for reason in node.not_replayable]
    if reasons:
        raise UserError(
            f"{logical.pipeline} cannot be replayed:\n" + "\n".join(reasons),
            remedy="its results would not be those of the live run; change these nodes, or run it with `headrace run`",
        )


@contextmanager
def own_exchange(name: str, options: ReplayOptions, storage: str, tell: Tell | None) -> Iterator[Exchange]:
    """A new session's exchange; the session is stopped at the end. Raises UserError, ExternalError."""
    if options.master is not None:
        options.require_reachable(options.master, storage)
    with session(name, options.master, options.conf) as spark:
        context = getattr(spark, "sparkContext", None)
        if context is None:
            yield exchange_of("dataframe", spark, tell)
            return
        if options.back_end == "rdd":
            options.require_reachable(context.master, storage, conf=dict(context.getConf().getAll()))
        if is_kubernetes(context.master):
            await_executors(context, tell)
        yield exchange_of(options.back_end, spark, tell)


def exchange_for(spark: SparkSession) -> Exchange:
    """Returns the session's exchange: by RDDs if it has them, else (Spark Connect) by DataFrames."""
    return exchange_of("dataframe" if getattr(spark, "sparkContext", None) is None else "rdd", spark)


def exchange_of(back_end: BackEnd, spark: SparkSession, tell: Tell | None = None) -> Exchange:
    """Returns a back end's exchange on a session. tell: receives lines of progress."""
    return RddExchange(spark, tell) if back_end == "rdd" else DataFrameExchange(spark, tell)


def runs_here(master: str) -> bool:
    """Whether all executors run on this host."""
    if not master.startswith(_STANDALONE):
        return master.startswith(_LOCAL)
    return {address.rpartition(":")[0] for address in master.removeprefix(_STANDALONE).split(",")} <= _HERE


def require_reachable(master: str, places: Mapping[str, str | None], mounted: Sequence[str] = ()) -> None:
    """Raises UserError if executors run elsewhere and a place (its description -> its URL) is a folder of this host.

    mounted   folders that are volumes of all executors
    """
    if runs_here(master):
        return
    for what, url in places.items():
        if url is None or not _is_folder(url) or _is_below(url, mounted):
            continue
        raise UserError(
            f"{what} {url} is a folder of this host, which the executors of {master} do not reach",
            remedy="name a place that all of them reach (s3://bucket/prefix or hdfs://namenode/path)"
            + (f"; or {_VOLUMES}" if is_kubernetes(master) else "")
            + "; if that folder is a mount that all of them have, say so: --allow-local-storage",
        )


def _is_folder(url: str) -> bool:
    return "://" not in url or url.startswith("file:")


def _is_below(url: str, folders: Sequence[str]) -> bool:
    path = PurePosixPath(urlsplit(url).path if url.startswith("file:") else url)
    return any(path.is_relative_to(folder) for folder in folders)
