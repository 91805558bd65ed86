"""`headrace.spark.verify`: runs a range on both engines and compares the rows. Neither run opens a sink.

splits, resolved once ─┬─> native runtime, rows collected ──┐
                       └─> Spark, rows staged ──────────────┴─> sink by sink: the same rows?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict, Unpack

from headrace.api.pipeline_like import import_path, model_of
from headrace.api.spark.bound import Bound, bound_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.api.pipeline_like import PipelineLike
    from headrace.local.comparison.row_equality import RowsCompared


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
    from headrace.local.engine.range_run import run_range
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


def _quiet(_text: str) -> None:
    """Discards the line."""
