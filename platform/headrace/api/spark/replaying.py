"""`headrace.spark.replay` and `headrace.spark.verify`. The engine is imported on the first call.

`replay` runs a pipeline over a range of its sources, in the user's own Spark session. `verify` runs a range on both
engines and compares the rows; neither run opens a sink.

splits, resolved once ─┬─> native runtime, rows collected ──┐
                       └─> Spark, rows staged ──────────────┴─> sink by sink: the same rows?
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack, runtime_checkable

from headrace.api.running import load
from headrace.api.spark.replay_result import ReplayResult
from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.local.comparison.row_equality import RowsCompared
    from headrace.spec.pipeline import Pipeline as PipelineModel


class ReplaySettings(TypedDict, total=False):
    """The options beside the range.

    final                   with savepoint: close every window first
    from_savepoint          path of a savepoint or checkpoint to start from
    max_parallelism         replaces the pipeline's own; state written with another one is read whole and hashed anew
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
    max_parallelism: int | None
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
    from headrace.client.submission import file_form
    from headrace.core.settings import Home
    from headrace.execution.origin import OriginWish
    from headrace.spark.launch.replay import ReplayOptions, prepare
    from headrace.spark.launch.staged_rows import stage
    from headrace.spec.reading.read import pipeline_from_dict

    origin, publish, say = settings.get("from_savepoint"), settings.get("publish", False), settings.get("say", _quiet)
    groups = settings.get("max_parallelism")
    options = ReplayOptions(
        begin=bound_text(from_),
        end=bound_text(until),
        savepoint=savepoint,
        final=settings.get("final", False),
        origin=None if origin is None else OriginWish(origin, max_parallelism=groups),
        parallelism=settings.get("parallelism"),
        python_path=settings.get("python_path") or import_path(pipeline),
        publish=publish,
        allow_repeated=settings.get("allow_repeated_output", False),
        storage=settings.get("storage"),
        allow_local_storage=settings.get("allow_local_storage", False),
    )
    model = model_of(pipeline)
    if groups is not None:
        model = pipeline_from_dict({**file_form(model), "max_parallelism": groups})
    prepared = prepare(model, options, Home.from_environment())
    return ReplayResult(spark, stage(prepared, spark, say), published=publish)


def _quiet(_text: str) -> None:
    """Discards the line."""


Bound = str | datetime | Mapping[object, object] | None
"""A name that the connector defines (`latest`, say), a time (naive: UTC), or offsets by partition; as an end, also the
path of a savepoint. None: the source's own bound.
"""


def bound_text(bound: Bound) -> str | None:
    """Returns the bound as text of the command line."""
    match bound:
        case None | str():
            return bound
        case datetime():
            aware = bound if bound.tzinfo is not None else bound.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return json.dumps({str(key): value for key, value in bound.items()})


@runtime_checkable
class Builder(Protocol):
    """An object that builds a pipeline: `headrace.Pipeline`."""

    def build(self) -> PipelineModel:
        """Returns the model. Raises InvalidPipelineError."""
        ...


if TYPE_CHECKING:
    PipelineLike = Builder | PipelineModel | str | PathLike[str]


def model_of(pipeline: PipelineLike) -> PipelineModel:
    """Returns the pipeline as a model. Raises InvalidPipelineError, UserError for a missing file."""
    if isinstance(pipeline, Builder):
        return pipeline.build()
    return load(pipeline) if isinstance(pipeline, str | PathLike) else pipeline


def import_path(pipeline: PipelineLike) -> tuple[str, ...]:
    """Returns the import path for the user's functions: the file's folder, else the current one."""
    if not isinstance(pipeline, str | PathLike):
        return (str(Path.cwd()),)
    file = fspath(pipeline)
    return (str(named_file(file).parent),)


@dataclass(frozen=True, slots=True)
class SinkCompared:
    """A sink's rows: `rows.missing` are those that Spark lacks, `rows.extra` those that only Spark has.

    update_key   None: all rows were compared; else the final rows, one for each key
    """

    sink: str
    update_key: tuple[str, ...] | None
    rows: RowsCompared


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification."""

    sinks: tuple[SinkCompared, ...]
    rows_in: int

    @property
    def same(self) -> bool:
        """Whether both engines sent the same rows to every sink."""
        return all(each.rows.same for each in self.sinks)


class VerifySettings(TypedDict, total=False):
    """The options beside the range.

    parallelism           of nodes that set none, on Spark; default: the number of tasks that the cluster runs at a time
    storage               URL of a folder for staged rows, which executors must reach; default: the pipeline's
    allow_local_storage   the storage folder is a mount that all executors have
    python_path           import path entries for the user's functions, on executors
    say                   receives lines of progress
    """

    parallelism: int | None
    storage: str | None
    allow_local_storage: bool
    python_path: tuple[str, ...]
    say: Callable[[str], None]


def verify(
    spark: SparkSession,
    pipeline: PipelineLike,
    *,
    from_: Bound = None,
    until: Bound = None,
    **settings: Unpack[VerifySettings],
) -> Verified:
    """Runs a range of a pipeline's sources on both engines and compares the result rows. Blocks.

    Both engines close all windows at the end. The rows of both are kept in the folder of temporary files (TMPDIR).
    Raises UserError, InvalidPipelineError, ExternalError, and the errors of either run.
    """
    from headrace.core.settings import Home
    from headrace.execution.planning import plan_sinks
    from headrace.local.comparison.spilled_rows import SpilledRows, compare_spilled
    from headrace.local.engine.rows_run import run_range
    from headrace.spark.launch.replay import ReplayOptions, prepare
    from headrace.spark.launch.staged_rows import stage

    model, say = model_of(pipeline), settings.get("say", _quiet)
    options = ReplayOptions(
        begin=bound_text(from_),
        end=bound_text(until),
        parallelism=settings.get("parallelism"),
        python_path=settings.get("python_path") or import_path(pipeline),
        publish=False,
        storage=settings.get("storage"),
        allow_local_storage=settings.get("allow_local_storage", False),
    )
    prepared = prepare(model, options, Home.from_environment())
    splits = prepared.resolve()
    sinks = {spec.node: spec for _, spec in plan_sinks(prepared.plans.plan(1)) if not spec.implicit}
    with TemporaryDirectory(prefix="headrace-verify-") as folder:

        def spilled(engine: str) -> dict[str, SpilledRows]:
            return {
                name: SpilledRows(Path(folder, engine, name), spec.schema, spec.update_key)
                for name, spec in sinks.items()
            }

        here, there = spilled("native"), spilled("spark")
        say("native: running")
        native = run_range(
            prepared.plans.model(model.parallelism),
            {source: [each.split() for each in own] for source, own in splits.items()},
            here,
        )
        say(f"native: {native.progress.rows_in:,} rows in, {native.progress.rows_out:,} out")
        # the log does not show where partitions were idle: Spark gets the native run's floors
        again = replace(prepared, options=replace(options, floors=native.floors))
        staged = stage(again, spark, lambda text: say(f"spark: {text}"), splits=splits)
        say(f"spark: {staged.outcome.rows_in:,} rows in, {staged.outcome.rows_out:,} out")
        try:
            for name, rows in there.items():
                for batch in staged.batches(name):
                    rows.add(batch)
        finally:
            staged.delete()
        compared = tuple(
            SinkCompared(name, spec.update_key, compare_spilled(here[name].finished(), there[name].finished()))
            for name, spec in sinks.items()
        )
    return Verified(compared, staged.outcome.rows_in)
