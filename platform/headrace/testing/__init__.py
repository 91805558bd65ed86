"""Test tools for authors of pipelines and connectors: public, and as stable as the contracts themselves.

`run_pipeline` runs a pipeline on rows from Python: no broker, no files, no sinks. `sink_conformance` and
`source_conformance` contain the suites for connectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import polars as pl

from headrace.core.errors import UserError, did_you_mean
from headrace.local.engine.compile import compile_loaded
from headrace.local.engine.pipeline_ends import input_schema
from headrace.local.engine.rows_run import RowsRun, resized, run_on_rows
from headrace.local.engine.testcases import problems_of, typed_frame
from headrace.local.pipeline_file import Loaded, PipelineSource, load_file
from headrace.spec.findings import FindingsError
from headrace.spec.pipeline import Pipeline
from headrace.spec.rows import PARTITION_KEY, TIMESTAMP_KEY

__all__ = ["Results", "run_pipeline"]


Rows = pl.DataFrame | Sequence[Mapping[str, Any]]
"""A frame, or rows as dicts; either may have `$timestamp` (epoch ms; in dicts also RFC 3339) and `$partition`."""


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of a pipeline's outputs. Names are those of sinks, and of the nodes in `outputs`."""

    _run: RowsRun

    def frame(self, name: str) -> pl.DataFrame:
        """Returns every row that reached the output, in order of arrival; each update counts, deletes are left out."""
        return self._run.outputs[self._known(name)].frame()

    def latest(self, name: str) -> pl.DataFrame:
        """Returns the final rows: of updating rows the last one of each key, else all of them."""
        return self._run.outputs[self._known(name)].latest()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Returns `latest` as dicts."""
        return self.latest(name).to_dicts()

    @property
    def counters(self) -> Mapping[str, Counter[str]]:
        """Node -> its counters: `rows_in`, `rows_out`, `late`, `bad`, .."""
        return self._run.counters

    @property
    def late(self) -> int:
        """Rows that were late for every window."""
        return self._run.progress.late

    @property
    def bad(self) -> int:
        """Rows that failed and were skipped or diverted."""
        return self._run.progress.bad

    def _known(self, name: str) -> str:
        names = tuple(self._run.outputs)
        if name not in names:
            hint = did_you_mean(name, names)
            valid = f"outputs: {', '.join(names)}; name more of them in run_pipeline(.., outputs=[..])"
            raise UserError(f"{name!r} was not collected", remedy=f"{hint} {valid}" if hint else valid)
        return name


def run_pipeline(
    pipeline: Pipeline | PipelineSource | str | PathLike[str],
    inputs: Mapping[str, Rows],
    *,
    parallelism: int | None = None,
    batch_rows: int | None = None,
    outputs: Sequence[str] | None = None,
) -> Results:
    """Runs a pipeline (a model, a builder, or the path of a file) on rows, to the end, so that every window closes.

    Sources without an entry in `inputs` have no rows; formats are skipped. `outputs` names nodes (`hourly`,
    `hourly.late`, `flights.bad`) to collect beside the sinks. `batch_rows` is the greatest size of a batch. Raises
    UserError for names and rows that do not fit, InvalidPipelineError, and the job's error.
    """
    loaded = _loaded(pipeline)
    model = resized(loaded.pipeline, batch_rows=batch_rows, parallelism=parallelism)
    compile_loaded(Loaded(model, loaded.locator))
    for name in inputs:
        if name not in model.sources:
            names = tuple(model.sources)
            hint = did_you_mean(name, names)
            valid = f"sources: {', '.join(names)}"
            raise UserError(f"there is no source {name!r}", remedy=f"{hint} {valid}" if hint else valid)
    frames = {name: _frame(model, name, rows) for name, rows in inputs.items()}
    return Results(run_on_rows(model, frames, tuple(outputs or ())))


def _loaded(pipeline: Pipeline | PipelineSource | str | PathLike[str]) -> Loaded:
    match pipeline:
        case Pipeline():
            return Loaded(pipeline)
        case str() | PathLike():
            return load_file(fspath(pipeline))
        case _:
            return Loaded(pipeline.build())


def _frame(model: Pipeline, source: str, rows: Rows) -> pl.DataFrame:
    schema = input_schema(model.sources[source])
    if isinstance(rows, pl.DataFrame):
        known = (*schema.names, TIMESTAMP_KEY, PARTITION_KEY)
        for name in rows.columns:
            if name not in known:
                hint = did_you_mean(name, known)
                valid = f"columns: {', '.join(schema.names)}"
                raise UserError(
                    f"inputs.{source}: unknown column {name!r}", remedy=f"{hint} {valid}" if hint else valid
                )
        return rows
    try:
        return typed_frame(rows, schema)
    except FindingsError as found:
        problems = problems_of(found, ("inputs", source), None)
        raise UserError("\n".join(str(problem) for problem in problems)) from found
