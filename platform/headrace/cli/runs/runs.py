"""`headrace runs`: lists the kept state of this home's runs, resumes a run, or deletes its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, print_json, print_table
from headrace.cli.errors import reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.core.settings import Home
    from headrace.local.runs.runs import KeptRun

app = typer.Typer(name="runs", no_args_is_help=True)

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's job id, or the name of its pipeline: its newest run.")]


@app.command("list", short_help="list runs that may be resumed")
@reporting_errors()
def list_(as_json: Json = False) -> None:
    """List the runs that were interrupted and kept their state, and the running ones."""
    from headrace.core.settings import Home
    from headrace.local.runs.runs import kept_runs

    found = kept_runs(Home.from_environment())
    if as_json:
        print_json({"runs": [_document(kept) for kept in found]})
    elif not found:
        typer.echo("no runs", err=True)
    else:
        rows = [(kept.run.job, kept.pipeline, _state(kept), _checkpoint(kept), kept.run.file or "-") for kept in found]
        print_table(("RUN", "PIPELINE", "STATE", "CHECKPOINT", "FILE"), rows, left=5)


@app.command(short_help="resume a run")
@reporting_errors()
def resume(run: Run, as_json: Json = False) -> None:
    """Resume a run from its last checkpoint: the newest of its pipeline continues as itself, an older one as a new run
    that starts from its checkpoint.
    """
    from headrace.cli.runs.run import run as run_pipeline
    from headrace.core.errors import UserError
    from headrace.core.settings import Home

    kept = _chosen(Home.from_environment(), run)
    if not kept.run.file:
        raise UserError(
            f"an earlier version kept run {kept.run.job}, without its file", remedy="headrace run FILE --resume"
        )
    name = kept.pipeline if kept.run.file.endswith((".yaml", ".yml")) else None
    if kept.newest:
        run_pipeline(kept.run.file, name=name, resume=True, as_json=as_json)
    else:
        run_pipeline(kept.run.file, name=name, from_savepoint=kept.run.storage, as_json=as_json)


@app.command(short_help="delete kept runs")
@reporting_errors()
def clean(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]..", help="Job ids or names of pipelines.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All runs that are not running now.")] = False,
    as_json: Json = False,
) -> None:
    """Delete the checkpoints of runs that will not be resumed."""
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.local.runs.runs import forget_logs, forget_run, kept_runs

    home = Home.from_environment()
    if not runs and not everything:
        raise UserError("which runs?", remedy="name them, as `headrace runs list` does; or --all")
    if everything:
        chosen = [kept for kept in kept_runs(home) if not kept.running]
    else:
        chosen = [_chosen(home, named) for named in runs or ()]
    for kept in chosen:
        if kept.running:
            raise UserError(f"run {kept.run.job} of {kept.pipeline} goes on", remedy="end it first")
    for kept in chosen:
        forget_run(home, kept.pipeline, kept.run)
        forget_logs(home, kept.run.job)
    if as_json:
        print_json({"deleted": [kept.run.job for kept in chosen]})
    else:
        typer.echo(f"deleted the state of {plural(len(chosen), 'run')}")


def _chosen(home: Home, named: str) -> KeptRun:
    from headrace.core.errors import UserError, did_you_mean
    from headrace.local.runs.runs import kept_runs

    found = kept_runs(home)
    for kept in found:
        if named == kept.run.job or (named == kept.pipeline and kept.newest):
            return kept
    names = tuple(name for kept in found for name in (kept.run.job, kept.pipeline))
    raise UserError(
        f"no run {named!r} has kept its state in {home.root}",
        remedy=did_you_mean(named, names) or "headrace runs list shows those that have",
    )


def _state(kept: KeptRun) -> str:
    if kept.running:
        return "RUNNING"
    return "KEPT" if kept.newest else "LEFT"


def _checkpoint(kept: KeptRun) -> str:
    from headrace.cli.runs.resumption import checkpoint_text
    from headrace.core.errors import HeadraceError
    from headrace.local.runs.runs import newest_checkpoint

    try:
        newest = newest_checkpoint(kept.run)
    except HeadraceError as error:
        return f"? ({error.message})"
    return "-" if newest is None else checkpoint_text(newest)


def _document(kept: KeptRun) -> dict[str, object]:
    return {
        "run": kept.run.job,
        "pipeline": kept.pipeline,
        "state": _state(kept),
        "file": kept.run.file or None,
        "path": kept.run.storage,
    }
