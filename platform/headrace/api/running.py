"""Loads, explains and runs a pipeline in this process. The engine is imported on the first call."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from headrace.core.errors import HeadraceError
from headrace.core.text.concealment import Concealment

if TYPE_CHECKING:
    from headrace.local.engine.job import JobState, Progress
    from headrace.spec.pipeline import Pipeline as PipelineModel


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. Rows are totals over all sources and sinks; dead letters count as bad, not as out."""

    state: JobState
    rows_in: int
    rows_out: int
    late: int
    bad: int
    seconds: float


def load(file: str | PathLike[str], *, set_: Sequence[str] = (), parallelism: int | None = None) -> PipelineModel:
    """Returns the pipeline in `file.yaml` or `module.py[:name]`; `set_` holds `path=value` texts that override fields.

    Its folder becomes the first entry of the import path. Raises UserError, or InvalidPipelineError with every problem.
    """
    from headrace.local.pipeline_file import load_file

    return load_file(fspath(file), set_, parallelism).pipeline


def run_model(
    model: PipelineModel,
    *,
    on_progress: Callable[[Progress], object] | None = None,
    stop_when: Callable[[Progress], bool] | None = None,
) -> RunResult:
    """Runs a pipeline in this process until its sources end; blocks. Raises the job's first error.

    `on_progress` is called about 20 times a second in the calling thread. Once `stop_when` returns true, the job stops
    reading and ends without closing windows, as after Ctrl-C of `headrace run`.
    """
    from headrace.local.engine.compile import compile_pipeline
    from headrace.local.engine.job import JobOptions, LocalJob

    physical = compile_pipeline(model).physical
    # part of the names of a sink's files, so that two runs never write to the same name
    job = LocalJob(physical, JobOptions(job=f"{model.name}-{uuid.uuid4().hex[:8]}", watches_data=True))

    def supervise(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(progress)
        if stop_when is not None and stop_when(progress):
            job.stop()

    started_s = time.monotonic()
    try:
        state = job.run(supervise)
    except HeadraceError as error:
        Concealment(model.hidden).error(error)
        raise
    end = job.progress()
    return RunResult(state, end.rows_in, end.rows_out, end.late, end.bad, time.monotonic() - started_s)


def explain_model(model: PipelineModel) -> str:
    """Returns the logical and the physical plan as text, as `headrace explain` prints them. Raises
    InvalidPipelineError.
    """
    from headrace.local.engine.compile import compile_pipeline
    from headrace.plan.explain import explain_lines

    compiled = compile_pipeline(model)
    return Concealment(model.hidden).text("\n".join(explain_lines(compiled.logical, compiled.physical)))
