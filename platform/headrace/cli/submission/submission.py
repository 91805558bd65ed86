"""A pipeline on its way to a coordinator: read here, planned here only if that is needed, sent, followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.named_file import named_file

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.requests import CodeArchive, SubmitRequest
    from headrace.local.engine.compile import Compiled
    from headrace.local.pipeline_file import Loaded


class LocalPlan:
    """The plan of a pipeline in this process: made at the first use, at most once."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    @cached_property
    def compiled(self) -> Compiled:
        """The planned pipeline. Raises InvalidPipelineError with every problem and its line."""
        from headrace.local.engine.compile import compile_loaded

        return compile_loaded(self._loaded)


def load_to_submit(file: str, set_: list[str] | None, parallelism: int | None) -> Loaded:
    """Reads FILE, before any request to the coordinator. Raises InvalidPipelineError."""
    from headrace.local.pipeline_file import Loaded, load_file
    from headrace.spec.reading.read import pipeline_from_dict

    if parallelism is not None and ".py" in file:
        pipeline = load_file(file, set_ or []).pipeline
        return Loaded(pipeline_from_dict({**pipeline.to_dict(), "parallelism": parallelism}))
    return load_file(file, set_ or [], parallelism)


def travelling_code(
    loaded: Loaded, file: str, *, py_files: Sequence[str] | None, archives: Sequence[str] | None
) -> tuple[CodeArchive, ...]:
    """Returns the code that the pipeline's functions need, from beside FILE and from the options. Raises UserError."""
    from headrace.client.submission import job_code

    folder = named_file(file).parent
    return job_code(loaded.pipeline, folder, py_files=py_files or (), archives=archives or ())


def submit_to_session(
    request: SubmitRequest, plan: LocalPlan, coordinator: str | None, *, wait: bool, as_json: bool
) -> None:
    """Submits to a cluster that runs, prints the job id, and with `wait` follows the job to its end.

    Raises UserError, ExternalError, typer.Exit.
    """
    from headrace.client.discovery import connect

    with ExitStack() as until_here:
        # only around the request: a plan shows no problem of a job that was accepted
        with _planned_here_if_refused(plan):
            client = until_here.enter_context(connect(coordinator))
            job = client.submit(request)
        if not as_json:
            typer.echo(job)
        try:
            _follow(client, job, wait=wait, as_json=as_json)
        except KeyboardInterrupt:
            typer.echo(f"\nthe job goes on; headrace status {job} shows it, headrace cancel {job} ends it", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _follow(client: Client, job: str, *, wait: bool, as_json: bool) -> None:
    if wait:
        print_end(follow(client, job), as_json=as_json)
        return
    require_opened(client, job, as_json=as_json)
    if as_json:
        print_json({"job_id": job})


@contextmanager
def _planned_here_if_refused(plan: LocalPlan) -> Iterator[None]:
    """The coordinator plans. If it refuses, the pipeline is planned here, too, because only here the file's lines are
    known.

    Raises InvalidPipelineError with every problem and its line instead of the coordinator's error. This also holds if
    no coordinator answers: the user can correct the file first.
    """
    try:
        yield
    except (UserError, ExternalError):
        _ = plan.compiled
        raise
