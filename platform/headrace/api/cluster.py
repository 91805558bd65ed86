"""Jobs on a cluster from Python: submit, inspect, savepoint, stop. Each call is one exchange with the coordinator.

`coordinator` is its URL. Without it, `HEADRACE_COORDINATOR` names the cluster, else it is the local one of
HEADRACE_HOME. A job is an id, a unique prefix of one, or the name of one running job. Raises UnreachableError if no
coordinator answers, UserError if it refuses. The client is imported on the first call.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from headrace.api.builder import Pipeline
    from headrace.client.models import JobStatus, JobSummary
    from headrace.spec.pipeline import Pipeline as PipelineModel


def submit(  # noqa: PLR0913 - the options of `headrace submit`
    pipeline: Pipeline | PipelineModel | str | PathLike[str],
    *,
    parallelism: int | None = None,
    max_parallelism: int | None = None,
    from_savepoint: str | PathLike[str] | None = None,
    claim: bool = False,
    take_over: bool = False,
    allow_dropped_state: bool = False,
    allow_drained: bool = False,
    allow_lost_output: bool = False,
    accepted_topics: Sequence[str] = (),
    allow_duplicate: bool = False,
    renames: Mapping[str, str] | None = None,
    py_files: Sequence[str | PathLike[str]] = (),
    archives: Sequence[str | PathLike[str]] = (),
    coordinator: str | None = None,
) -> str:
    """Submits a pipeline, or the file of one, to a cluster; returns the job id. As `headrace submit`.

    The pipeline is checked and planned here first: InvalidPipelineError has every problem. Modules of its `map`
    functions travel with the job if they lie beside the file (of a pipeline made in Python: beside the running script).
    """
    from headrace.checkpoint.paths import absolute
    from headrace.client.discovery import connect
    from headrace.client.requests import SubmitRequest
    from headrace.client.submission import application_key, file_form, job_code
    from headrace.local.engine.compile import compile_pipeline
    from headrace.spec.reading.read import pipeline_from_dict

    model, folder = _model_and_folder(pipeline)
    asked = {"parallelism": parallelism, "max_parallelism": max_parallelism}
    if changed := {name: value for name, value in asked.items() if value is not None}:
        model = pipeline_from_dict({**model.to_dict(), **changed})
    compile_pipeline(model)
    request = SubmitRequest(
        pipeline=file_form(model),
        code=job_code(
            model, folder, py_files=[fspath(path) for path in py_files], archives=[fspath(path) for path in archives]
        ),
        from_savepoint=None if from_savepoint is None else absolute(fspath(from_savepoint)),
        claim=claim,
        take_over=take_over,
        allow_dropped_state=allow_dropped_state,
        allow_drained=allow_drained,
        allow_lost_output=allow_lost_output,
        accepted_topics=tuple(accepted_topics),
        max_parallelism=max_parallelism,
        allow_duplicate=allow_duplicate,
        renames=dict(renames or {}),
        key=application_key(model.name),
    )
    with connect(coordinator) as client:
        return client.submit(request)


def jobs(*, coordinator: str | None = None) -> tuple[JobSummary, ...]:
    """Returns the jobs of a cluster, newest first: running ones, and the last that ended."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return client.jobs()


def status(job: str, *, coordinator: str | None = None) -> JobStatus:
    """Returns a job's state, nodes and subtasks, last checkpoint, failure."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return client.status(job)


def wait(job: str, *, timeout_s: float | None = None, coordinator: str | None = None) -> JobStatus:
    """Waits until a job has ended, whatever its end. Raises ExternalError after `timeout_s`."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return client.wait(job, timeout_s=timeout_s)


def savepoint(job: str, directory: str | PathLike[str] | None = None, *, coordinator: str | None = None) -> str:
    """Takes a savepoint of a running job, which continues; returns its path."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return _path(client.wait_trigger(client.savepoint(job, _place(directory))).path)


def stop(
    job: str,
    *,
    savepoint: str | PathLike[str] | None = None,
    drain: bool = False,
    within_s: float = 60.0,
    coordinator: str | None = None,
) -> str:
    """Stops a job at a cut. Returns the path of the savepoint, or of the last checkpoint, to start from again.

    `drain` advances time to its end first, so that every window closes. The job ends within `within_s`: at its last
    complete checkpoint, whose path is returned, if it takes no other one in time.
    """
    from headrace.client.discovery import connect

    within_ms = round(within_s * 1_000)
    with connect(coordinator) as client:
        return _path(client.wait_trigger(client.stop(job, _place(savepoint), drain=drain, within_ms=within_ms)).path)


def cancel(job: str, *, coordinator: str | None = None) -> JobStatus:
    """Ends a job at once; its checkpoints stay."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return client.status(client.wait_trigger(client.cancel(job)).job_id)


def rescale(job: str, parallelism: int, *, coordinator: str | None = None) -> JobStatus:
    """Continues a job with another parallelism; returns when it runs again."""
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        return client.status(client.wait_trigger(client.rescale(job, parallelism)).job_id)


def _model_and_folder(pipeline: Pipeline | PipelineModel | str | PathLike[str]) -> tuple[PipelineModel, Path]:
    from headrace.api.builder import Pipeline
    from headrace.api.running import load
    from headrace.spec.pipeline import Pipeline as Model

    if isinstance(pipeline, Pipeline | Model):
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        folder = Path(script).resolve().parent if isinstance(script, str) else Path.cwd()
        return (pipeline.build() if isinstance(pipeline, Pipeline) else pipeline), folder
    file = fspath(pipeline)
    return load(file), named_file(file).parent


def _place(directory: str | PathLike[str] | None) -> str | None:
    from headrace.checkpoint.paths import absolute

    return None if directory is None else absolute(fspath(directory))


def _path(path: str | None) -> str:
    from headrace.core.errors import InternalError

    if path is None:
        raise InternalError("the coordinator completed it, but named no path")
    return path
