"""`headrace submit`: submits a pipeline to a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import (
    AllowDrained,
    AllowDroppedState,
    AllowLostOutput,
    Archive,
    Coordinator,
    File,
    Json,
    PyFiles,
    Rename,
    Set,
    print_json,
    renames_of,
)
from headrace.cli.errors import reporting_errors
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened
from headrace.cli.jobs.submit_alone import run_alone, run_application
from headrace.cli.jobs.submit_target import require_fitting
from headrace.cli.output.verdicts import tell_verdicts
from headrace.cli.spark.replay import replay
from headrace.cli.spark.settings import Conf, Master
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from headrace.client.models import SubmitRequest
    from headrace.local.engine.compile import Compiled
    from headrace.local.pipeline_file import Loaded
    from headrace.spec.pipeline import Pipeline


class Mode(StrEnum):
    """The kind of cluster that a job runs on."""

    SESSION = "session"
    PER_JOB = "per-job"
    APPLICATION = "application"


class Target(StrEnum):
    """The system that provides the processes."""

    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"
    SPARK = "spark"


@reporting_errors()
def submit(
    context: typer.Context,
    file: File,
    mode: Annotated[Mode, typer.Option(help="On a cluster that runs, or on one of its own.")] = Mode.SESSION,
    target: Annotated[Target, typer.Option(help="Who gives the processes.")] = Target.STANDALONE,
    from_savepoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Start from a savepoint or checkpoint.", show_default=False)
    ] = None,
    claim: Annotated[
        bool, typer.Option("--claim", help="Its files become the job's. Default: they are copied.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Though the job of that checkpoint may still run.")
    ] = False,
    allow_dropped_state: AllowDroppedState = False,
    allow_drained: AllowDrained = False,
    allow_lost_output: AllowLostOutput = False,
    rename: Rename = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself.")] = None,
    py_files: PyFiles = None,
    archive: Archive = None,
    set_: Set = None,
    allow_duplicate: Annotated[bool, typer.Option("--allow-duplicate", help="Though a job of that name runs.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended; exit code 1 unless it finished.")] = False,
    coordinator: Coordinator = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Submit a pipeline to a cluster; prints the job id. With --target spark this process stays: it is the driver."""
    from headrace.client.discovery import connect

    require_fitting(context, spark=target is Target.SPARK)
    if target is Target.SPARK:
        # the same as `headrace replay --follow`, under the verb that starts jobs
        replay(
            file,
            follow=True,
            master=master,
            conf=conf,
            py_files=py_files,
            archives=archive,
            set_=set_,
            parallelism=parallelism,
            from_savepoint=from_savepoint,
            rename=rename,
            allow_dropped_state=allow_dropped_state,
            allow_drained=allow_drained,
            allow_lost_output=allow_lost_output,
            as_json=as_json,
        )
        return
    _require_built(target)
    if mode is Mode.APPLICATION:
        run_application(file, parallelism, wait=wait, as_json=as_json)
        return
    loaded = load_to_submit(file, set_, parallelism)
    # planned at most once, and only if something below needs a plan
    planned = cache(partial(_plan, loaded))
    renames = renames_of(rename)
    if from_savepoint is not None:
        tell_verdicts(planned(), from_savepoint, renames, allow_dropped_state=allow_dropped_state)
    request = request_for(
        loaded.pipeline,
        file,
        py_files=py_files,
        archive=archive,
        from_savepoint=from_savepoint,
        renames=renames,
        allow_dropped_state=allow_dropped_state,
        allow_drained=allow_drained,
    ).model_copy(
        update={
            "claim": claim,
            "take_over": take_over,
            "allow_duplicate": allow_duplicate,
            "allow_lost_output": allow_lost_output,
        }
    )
    if mode is Mode.PER_JOB:
        run_alone(planned(), request, wait=wait, as_json=as_json)
        return
    with ExitStack() as until_here:
        # only around the request: a plan shows no problem of a job that was accepted
        with _planned_here_if_refused(planned):
            client = until_here.enter_context(connect(coordinator))
            job = client.submit(request)
        if not as_json:
            typer.echo(job)
        try:
            if wait:
                print_end(follow(client, job), as_json=as_json)
                return
            require_opened(client, job, as_json=as_json)
        except KeyboardInterrupt:
            typer.echo(f"\nthe job goes on; headrace status {job} shows it, headrace cancel {job} ends it", err=True)
            raise typer.Exit(INTERRUPTED) from None
        if as_json:
            print_json({"job_id": job})


def load_to_submit(file: str, set_: list[str] | None, parallelism: int | None) -> Loaded:
    """Reads FILE, before any request to the coordinator. Raises InvalidPipelineError."""
    from headrace.local.pipeline_file import Loaded, load_file
    from headrace.spec.reading.read import pipeline_from_dict

    if parallelism is not None and ".py" in file:
        pipeline = load_file(file, set_ or []).pipeline
        return Loaded(pipeline_from_dict({**pipeline.to_dict(), "parallelism": parallelism}))
    return load_file(file, set_ or [], parallelism)


def _plan(loaded: Loaded) -> Compiled:
    from headrace.local.engine.compile import compile_loaded

    return compile_loaded(loaded)


@contextmanager
def _planned_here_if_refused(planned: Callable[[], Compiled]) -> Iterator[None]:
    """The coordinator plans. If it refuses, the pipeline is planned here, too, because only here the file's lines are
    known.

    Raises InvalidPipelineError with every problem and its line instead of the coordinator's error. This also holds if
    no coordinator answers: the user can correct the file first.
    """
    try:
        yield
    except (UserError, ExternalError):
        planned()
        raise


def request_for(
    pipeline: Pipeline,
    file: str,
    *,
    py_files: list[str] | None,
    archive: list[str] | None,
    from_savepoint: str | None,
    renames: dict[str, str],
    allow_dropped_state: bool,
    allow_drained: bool,
) -> SubmitRequest:
    """Returns the request for a pipeline, with the code that travels."""
    from headrace.checkpoint.paths import absolute
    from headrace.client.models import SubmitRequest
    from headrace.client.submission import file_form, job_code

    folder = named_file(file).parent
    return SubmitRequest(
        pipeline=file_form(pipeline),
        code=job_code(pipeline, folder, py_files=py_files or (), archives=archive or ()),
        from_savepoint=None if from_savepoint is None else absolute(from_savepoint),
        renames=renames,
        allow_dropped_state=allow_dropped_state,
        allow_drained=allow_drained,
    )


def _require_built(target: Target) -> None:
    if target is not Target.STANDALONE:
        remedy = "use standalone: a cluster of your own hosts"
        raise UserError(f"--target {target} is not in this version", remedy=remedy)
