"""`headrace.spark.replay`: runs a pipeline over a range of its sources, in the user's own Spark session.

The engine is imported on the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

from headrace.api.pipeline_like import import_path, model_of
from headrace.api.spark.bound import Bound, bound_text
from headrace.api.spark.replay_result import ReplayResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.api.pipeline_like import PipelineLike


class ReplaySettings(TypedDict, total=False):
    """The options beside the range.

    final                   with savepoint: close every window first
    from_savepoint          path of a savepoint or checkpoint to start from
    publish                 result rows are published to the sinks, each once; the result then has no DataFrames
    allow_repeated_output   with publish: publishes the decided rows of an earlier call although a sink may no longer
                            know which of them it has
    parallelism             of nodes that set none; default: the number of tasks that the cluster runs at a time
    storage                 URL of a folder for the job's files, which executors must reach; default: the pipeline's
    allow_local_storage     the storage folder is a mount that all executors have
    python_path             import path entries for the user's functions, on executors
    say                     receives lines of progress
    """

    final: bool
    from_savepoint: str | None
    publish: bool
    allow_repeated_output: bool
    parallelism: int | None
    storage: str | None
    allow_local_storage: bool
    python_path: tuple[str, ...]
    say: Callable[[str], None]


def replay(
    spark: SparkSession,
    pipeline: PipelineLike,
    *,
    until: Bound = None,
    from_: Bound = None,
    savepoint: str | None = None,
    **settings: Unpack[ReplaySettings],
) -> ReplayResult:
    """Runs a pipeline (a builder, a model, or a file) over a range of its sources, in this session. Blocks.

    until, from_   where sources end and begin; default: their `stop`, else the last offset, and their `start`
    savepoint      folder for a savepoint at the end: windows stay open in it, and only closed windows produce rows

    No sink is opened unless `publish=True`: the rows are in the result. Raises UserError, InvalidPipelineError,
    ExternalError, and the tasks' errors.
    """
    from headrace.core.settings import Home
    from headrace.execution.origin import OriginWish
    from headrace.spark.launch.replay import ReplayOptions, prepare
    from headrace.spark.launch.staged_rows import stage

    origin, publish, say = settings.get("from_savepoint"), settings.get("publish", False), settings.get("say", _quiet)
    options = ReplayOptions(
        begin=bound_text(from_),
        end=bound_text(until),
        savepoint=savepoint,
        final=settings.get("final", False),
        origin=None if origin is None else OriginWish(origin),
        parallelism=settings.get("parallelism"),
        python_path=settings.get("python_path") or import_path(pipeline),
        publish=publish,
        allow_repeated=settings.get("allow_repeated_output", False),
        storage=settings.get("storage"),
        allow_local_storage=settings.get("allow_local_storage", False),
    )
    prepared = prepare(model_of(pipeline), options, Home.from_environment())
    return ReplayResult(spark, stage(prepared, spark, say), published=publish)


def _quiet(_text: str) -> None:
    """Discards the line."""
