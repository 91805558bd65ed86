"""`headrace submit --target yarn`: to a cluster that runs there, or to one that is made for the job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.cluster.yarn import described, open_yarn_deployer
from headrace.cli.submission.made_cluster import MadeCluster, keyed, report_application, report_job, require_running
from headrace.cli.submission.new_name import new_name
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest
    from headrace.deployment.yarn.application import Work


class YarnTarget(NamedTuple):
    """name: of the cluster; None: a new one; config: describes a cluster that is made."""

    name: str | None = None
    config: Path | None = None

    def running(self) -> str:
        """The address of a cluster that runs. Raises UserError."""
        return f"yarn://{require_running(self.name, self.config)}"


def run_alone_on_yarn(request: SubmitRequest, target: YarnTarget, *, name: str, wait: bool, as_json: bool) -> None:
    """Makes a cluster that serves the job and ends with it. name: the pipeline's."""
    from headrace.deployment.yarn.application import job_work

    own = keyed(request)
    report_job(_start(target, name, job_work(own)), own, wait=wait, as_json=as_json)


def run_application_on_yarn(program: str, target: YarnTarget, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside its coordinator, which submits its jobs there."""
    from headrace.deployment.yarn.application import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on YARN",
            remedy="yarn application -status APPLICATION shows its end",
        )
    report_application(_start(target, Path(program).stem, program_work(program)), as_json=as_json)


def _start(target: YarnTarget, name: str, work: Work) -> MadeCluster:
    from headrace.deployment.yarn.cluster_spec import YarnCluster

    cluster = YarnCluster(target.name or new_name(name), described(target.config), is_own=True)
    with open_yarn_deployer(cluster.spec) as deployer:
        started = deployer.start(cluster, work, report=lambda line: typer.echo(line, err=True))
    return MadeCluster(started.report.name, started.coordinator, started.report.application)
