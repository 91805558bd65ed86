"""`headrace submit --target yarn`: to a cluster that runs there, or to one that is made for the job."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.arguments import print_json
from headrace.cli.cluster.yarn import described, open_yarn_deployer
from headrace.cli.jobs.new_name import new_name
from headrace.cli.jobs.submit_pods import follow_job
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from headrace.client.models import SubmitRequest
    from headrace.deployment.yarn.deployer import Started
    from headrace.deployment.yarn.work import Work


class YarnPlace(NamedTuple):
    """name: of the cluster; None: a new one; config: describes a cluster that is made."""

    name: str | None = None
    config: Path | None = None

    def running(self) -> str:
        """The address of a cluster that runs. Raises UserError."""
        if self.name is None:
            raise UserError("no cluster is named", remedy="give --name NAME; --mode per-job makes one for the job")
        if self.config is not None:
            raise UserError("--config describes no cluster that runs", remedy="leave it out, or give --mode per-job")
        return f"yarn://{self.name}"


def run_alone_on_yarn(request: SubmitRequest, place: YarnPlace, *, name: str, wait: bool, as_json: bool) -> None:
    """Makes a cluster that serves the job and ends with it. name: the pipeline's."""
    from headrace.attendance.attendant import THE_JOB
    from headrace.client.discovery import connect
    from headrace.deployment.yarn.work import job_work

    keyed = request.model_copy(update={"key": THE_JOB})
    started = _start(place, name, job_work(keyed))
    with ExitStack() as until_here:
        job: str | None = None
        try:
            client = until_here.enter_context(connect(started.coordinator))
            # its attendant submits by the same key
            job = client.submit(keyed)
        except ExternalError as error:
            if wait:
                raise
            # only this host does not reach the nodes
            typer.echo(f"the cluster runs the job, and does not answer here: {error}", err=True)
        if not as_json:
            typer.echo(job or started.report.application)
        typer.echo(f"its cluster: --coordinator {started.coordinator}", err=True)
        if job is not None:
            follow_job(client, job, wait=wait, as_json=as_json)
    if as_json and not wait:
        print_json({"job_id": job, "coordinator": started.coordinator, "name": started.report.name})


def run_application_on_yarn(program: str, place: YarnPlace, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside its coordinator, which submits its jobs there."""
    from headrace.deployment.yarn.work import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on YARN",
            remedy="yarn application -status APPLICATION shows its end",
        )
    started = _start(place, Path(program).stem, program_work(program))
    if as_json:
        named = {"coordinator": started.coordinator, "name": started.report.name}
        print_json({"job_id": None, "application": started.report.application, **named})
    else:
        typer.echo(started.report.application)
    typer.echo(f"its cluster: --coordinator {started.coordinator}", err=True)


def _start(place: YarnPlace, name: str, work: Work) -> Started:
    from headrace.deployment.yarn.cluster_spec import YarnCluster

    cluster = YarnCluster(place.name or new_name(name), described(place.config), is_own=True)
    with open_yarn_deployer() as deployer:
        return deployer.start(cluster, work, report=lambda line: typer.echo(line, err=True))
