"""`headrace explain`: the plan of a pipeline, its verdicts on a savepoint, or why a job is slow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import (
    Coordinator,
    File,
    Json,
    MaxParallelism,
    Rename,
    Set,
    overrides_of,
    print_json,
    renames_of,
)
from headrace.cli.errors import WRONG_USE, reporting_errors

if TYPE_CHECKING:
    from headrace.local.engine.compile import Compiled

LIVE_SECONDS = 10.0
"""Longest wait for the first figures of a job that has just begun."""


@reporting_errors()
def explain(
    file: File,
    set_: Set = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SAVEPOINT",
            help="Instead: a verdict per node on restoring this savepoint or checkpoint; exit code 2 when state "
            "would be lost.",
            show_default=False,
        ),
    ] = None,
    rename: Rename = None,
    max_parallelism: MaxParallelism = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Instead: FILE is a JOB that runs. Say why it is slow, with evidence and a remedy."
        ),
    ] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show what a pipeline does: columns, time, append or updating, replayable or why not; tasks and edges."""
    if live:
        _check_live({"--set": set_, "--against": against, "--rename": rename, "--max-parallelism": max_parallelism})
        _explain_live(file, coordinator, as_json=as_json)
        return
    from headrace.core.concealing import concealed, concealed_data
    from headrace.local.engine.compile import compile_loaded
    from headrace.local.pipeline_file import load_file
    from headrace.plan.explain import explain_dict, explain_lines

    renames = renames_of(rename)
    compiled = compile_loaded(load_file(file, overrides_of(set_, max_parallelism)))
    if against is not None:
        _explain_against(compiled, against, renames, rehashes=max_parallelism is not None, as_json=as_json)
        return
    if as_json:
        print_json(concealed_data(explain_dict(compiled.logical, compiled.physical)))
        return
    for line in map(concealed, explain_lines(compiled.logical, compiled.physical)):
        # click drops the style if stdout is no terminal
        typer.echo(line if line.startswith(" ") else typer.style(line, bold=True))


def _check_live(given: Mapping[str, object]) -> None:
    """Raises UserError for options that need a file."""
    from headrace.core.errors import UserError

    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise UserError(
            f"{wrong} does not go with --live", remedy=f"--live looks at a job that runs: leave {wrong} out"
        )


def _explain_live(job: str, coordinator: str | None, *, as_json: bool) -> None:
    from headrace.client.discovery import connect

    with connect(coordinator) as client:
        found = client.wait_bottleneck(job, timeout_s=LIVE_SECONDS)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    typer.echo(f"{found.job_id}  {found.name}")
    typer.echo(typer.style(found.verdict, bold=True))
    for line in found.evidence:
        typer.echo(f"  {line}")
    if found.remedy is not None:
        typer.echo(f"remedy: {found.remedy}")


def _explain_against(compiled: Compiled, path: str, renames: dict[str, str], *, rehashes: bool, as_json: bool) -> None:
    from headrace.checkpoint.savepoints.savepoint import find
    from headrace.checkpoint.savepoints.verdict import judge, loses_state
    from headrace.cli.verdicts import verdict_lines

    found = find(path)
    verdicts = judge(found.manifest, compiled.physical, renames, rehashes=rehashes)
    loses = loses_state(verdicts)
    if as_json:
        nodes = [{"node": each.node, "verdict": each.verdict.value, "text": each.text} for each in verdicts]
        print_json({"path": found.url, "loses_state": loses, "drained": found.manifest.drained, "nodes": nodes})
    else:
        manifest = found.manifest
        typer.echo(
            f"{compiled.pipeline.name} from {manifest.kind} {manifest.epoch} of {manifest.pipeline}, {found.url}"
        )
        for line in verdict_lines(verdicts):
            typer.echo(f"  {line}")
        if manifest.drained:
            typer.echo("it was drained: every window has closed; restoring it takes --allow-drained", err=True)
        if loses:
            typer.echo("state would be lost", err=True)
    if loses:
        raise typer.Exit(WRONG_USE)
