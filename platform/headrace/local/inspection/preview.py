"""Rows of a node, read from the real sources. Opens no sink, and publishes no source positions."""

from __future__ import annotations

import time
from dataclasses import dataclass

import polars as pl

from headrace.core.errors import UserError
from headrace.core.types import Schema
from headrace.local.engine.compile import compile_loaded
from headrace.local.engine.job import JobState, LocalJob, Progress
from headrace.local.engine.pipeline_ends import check_reference, with_taps
from headrace.local.engine.quiet_source import quiet_source
from headrace.local.engine.rows_run import Output, compile_tapped
from headrace.local.pipeline_file import Loaded
from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Preview:
    """Rows of a node; `timed_out`: the time limit ended the preview before it had enough rows."""

    schema: Schema
    emits: str
    rows: pl.DataFrame
    timed_out: bool


def preview(loaded: Loaded, reference: str, *, rows: int, seconds: float) -> Preview:
    """Returns the first `rows` rows of a node or side output; for a sink, the rows that it would write.

    Ends with the sources, with enough rows, or after `seconds`. Raises UserError for an unknown node,
    InvalidPipelineError, and the errors of the sources.
    """
    if loaded.pipeline.sinks:
        compile_loaded(loaded)
    check_reference(loaded.pipeline, reference)
    changed, taps = with_taps(
        _quiet(loaded.pipeline), (_read_by(loaded.pipeline, reference),), keep_sinks=False, rows_max=rows
    )
    compiled, specs = compile_tapped(changed, taps)
    ((_, collection),), (spec,) = taps.values(), specs.values()
    job = LocalJob(compiled.physical)
    deadline_s = time.monotonic() + seconds
    timed_out = False

    def supervise(_progress: Progress) -> None:
        nonlocal timed_out
        if collection.full:
            job.stop()
        elif time.monotonic() >= deadline_s:
            timed_out = True
            job.stop()

    state = job.run(supervise)
    emits = "append" if spec.update_key is None else f"updating({', '.join(spec.update_key)})"
    missed = timed_out and state is JobState.CANCELED and not collection.full
    return Preview(spec.schema, emits, collection.frame(spec.schema).head(rows), missed)


def collect(loaded: Loaded, reference: str, *, rows_max: int) -> pl.DataFrame:
    """Returns all rows of a node or side output; of an updating one the last row of each key.

    Raises UserError for sources that do not end, and for more than `rows_max` rows; else as `preview`.
    """
    check_reference(loaded.pipeline, reference)
    unbounded = [name for name, node in loaded.pipeline.sources.items() if not node.config.bounded]
    if unbounded:
        raise UserError(
            f"{reference} has no last row: source {unbounded[0]} does not end",
            remedy="give the source a stop (`stop: latest` of kafka), or take the first rows with preview",
        )
    changed, taps = with_taps(_quiet(loaded.pipeline), (reference,), keep_sinks=False, rows_max=rows_max + 1)
    compiled, specs = compile_tapped(changed, taps)
    ((_, collection),), (spec,) = taps.values(), specs.values()
    job = LocalJob(compiled.physical)

    def supervise(_progress: Progress) -> None:
        if collection.full:
            job.stop()

    job.run(supervise)
    if collection.full:
        raise UserError(
            f"{reference} has more than {rows_max:,} rows", remedy="raise rows_max, or write the rows with a sink"
        )
    return Output(spec.schema, spec.update_key, collection).latest()


def schema_of_stream(loaded: Loaded, reference: str) -> Schema:
    """Returns the columns of a node or side output. Raises UserError and InvalidPipelineError; opens nothing."""
    check_reference(loaded.pipeline, reference)
    changed, taps = with_taps(loaded.pipeline, (reference,), keep_sinks=False)
    (spec,) = compile_tapped(changed, taps)[1].values()
    return spec.schema


def _read_by(pipeline: Pipeline, reference: str) -> str:
    """Returns the node that a sink reads; any other node itself."""
    return pipeline.sinks[reference].from_ if reference in pipeline.sinks else reference


def _quiet(pipeline: Pipeline) -> Pipeline:
    sources = {
        name: node.model_copy(update={"config": quiet_source(node.config)}) for name, node in pipeline.sources.items()
    }
    return pipeline.model_copy(update={"sources": sources})
