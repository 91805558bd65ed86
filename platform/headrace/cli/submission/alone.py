"""`headrace submit --mode per-job` and `--mode application`: a cluster of its own, which ends with what runs on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import FAILED
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest
    from headrace.local.cluster import Election
    from headrace.local.engine.compile import Compiled

SLOTS = 4
"""Default slots of an application's cluster (`--parallelism`)."""


def run_alone(
    compiled: Compiled, request: SubmitRequest, election: Election | None, *, wait: bool, as_json: bool
) -> None:
    """Starts a cluster with the job's number of slots, and submits the job there. With an election, which other hosts
    may have joined before, the job is submitted unless it is there.
    """
    from headrace.core.settings import Home
    from headrace.job_cluster.attendant import THE_JOB
    from headrace.local.cluster import start, stop
    from headrace.local.cluster.attendant import attend, own_home
    from headrace.local.cluster.own_client import leader_client

    own = own_home(Home.from_environment(), compiled.pipeline.name)
    slots = max(task.parallelism for task in compiled.physical.tasks)
    record, _ = start(own, 1, slots, election=election)
    try:
        with leader_client(own, record) as client:
            job = client.submit(request if election is None else request.model_copy(update={"key": THE_JOB}))
            if not as_json:
                typer.echo(job)
            typer.echo(f"its cluster: --coordinator {record.url}, in {own.root}", err=True)
            if wait:
                ended = follow(client, job)
            else:
                require_opened(client, job, as_json=as_json)
    except KeyboardInterrupt:
        attend(own, ["--job", job], Path.cwd())
        typer.echo("\nthe job goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BaseException:
        stop(own)
        shutil.rmtree(own.root, ignore_errors=True)
        raise
    if wait and compiled.physical.bounded:
        stop(own)
    else:
        # also behind an endless job, which somebody has stopped: if that is an upgrade, the cluster goes on
        attend(own, ["--job", job], Path.cwd())
    if wait:
        print_end(ended, as_json=as_json)
    elif as_json:
        print_json({"job_id": job, "coordinator": record.url, "home": str(own.root)})


def run_application(file: str, slots: int | None, election: Election | None, *, wait: bool, as_json: bool) -> None:
    """Starts a cluster, and a Python program beside it that submits its jobs there. With an election, which other hosts
    may have joined before, the program runs beside the coordinator that leads.
    """
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.job_cluster.attendant import Attendant
    from headrace.local.cluster import start, stop
    from headrace.local.cluster.attendant import attend, own_home, run_program
    from headrace.local.cluster.home_part import HomePart

    program = Path(file).resolve()
    if program.suffix != ".py" or not program.is_file():
        raise UserError(f"{file} is no Python program", remedy="--mode application runs a .py file that submits jobs")
    own = own_home(Home.from_environment(), program.stem)
    record, _ = start(own, 1, slots or SLOTS, election=election)
    if not as_json:
        typer.echo(own.root.name)
    typer.echo(f"its cluster: --coordinator {record.url}, in {own.root}", err=True)
    document = {"job_id": None, "application": own.root.name, "coordinator": record.url, "home": str(own.root)}
    if not wait:
        attend(own, ["--program", str(program)], Path.cwd())
        if as_json:
            print_json(document)
        return
    try:
        code = run_program(Attendant(HomePart(own), linger_s=0.0), own, [str(program)])
    except KeyboardInterrupt:
        stop(own)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({**document, "exit_code": code})
    if code:
        raise typer.Exit(FAILED)
