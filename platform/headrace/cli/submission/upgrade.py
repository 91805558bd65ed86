"""`headrace upgrade`: another pipeline in place of a running job, with its state."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.arguments import (
    AcceptNewTopic,
    AllowDroppedState,
    Archives,
    Coordinator,
    File,
    Job,
    Json,
    MaxParallelism,
    OldArchive,
    PyFiles,
    Rename,
    Set,
    both_spellings,
    overrides_of,
    print_json,
    renames_of,
)
from headrace.cli.errors import exit_code, reporting_errors
from headrace.cli.submission.submission import load_to_submit, travelling_code
from headrace.cli.verdicts import tell_verdicts


@reporting_errors()
def upgrade(
    job: Job,
    file: File,
    savepoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Stop with a savepoint in this folder. Default: keep a last checkpoint.",
            show_default=False,
        ),
    ] = None,
    allow_dropped_state: AllowDroppedState = False,
    max_parallelism: MaxParallelism = None,
    accept_new_topic: AcceptNewTopic = None,
    rename: Rename = None,
    parallelism: Annotated[int | None, typer.Option(min=1, help="Subtasks of a node that sets none itself.")] = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    old_archive: OldArchive = None,
    set_: Set = None,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Stop a job and start another pipeline from its state; if that is refused, the old pipeline is started again."""
    from headrace.checkpoint.paths import absolute
    from headrace.client.discovery import connect
    from headrace.client.requests import SubmitRequest
    from headrace.client.submission import file_form
    from headrace.client.upgrade import upgrade as upgrade_job
    from headrace.local.engine.compile import compile_loaded

    loaded, renames = load_to_submit(file, overrides_of(set_, max_parallelism), parallelism), renames_of(rename)
    compiled = compile_loaded(loaded)
    request = SubmitRequest(
        pipeline=file_form(compiled.pipeline),
        code=travelling_code(loaded, file, py_files=py_files, archives=both_spellings(archives, old_archive)),
        renames=renames,
        allow_dropped_state=allow_dropped_state,
        accepted_topics=tuple(sorted(set(accept_new_topic or ()))),
        max_parallelism=max_parallelism,
    )
    with connect(coordinator) as client:
        last = client.status(job).checkpoint
        if last is not None:
            # before the job is stopped: the last checkpoint has the same states as the one to come
            rehashes = max_parallelism is not None
            tell_verdicts(compiled, last.path, renames, allow_dropped_state=allow_dropped_state, rehashes=rehashes)
        done = upgrade_job(
            client,
            job,
            request,
            savepoint=None if savepoint is None else absolute(savepoint),
            tell=lambda line: typer.echo(line, err=True),
        )
    if as_json:
        refused = None if done.refused is None else str(done.refused)
        print_json({"job_id": done.job, "old_job_id": done.old, "path": done.path, "refused": refused})
    elif done.refused is None:
        typer.echo(done.job)
    if done.refused is not None:
        typer.echo(f"error: {done.refused}", err=True)
        raise typer.Exit(exit_code(done.refused))
