"""`headrace submit --target kubernetes`: to a cluster that runs there, or to one that is made for the job."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.arguments import print_json
from headrace.cli.cluster.kubernetes import open_deployer
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened
from headrace.cli.jobs.new_name import new_name
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.models import SubmitRequest
    from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
    from headrace.deployment.kubernetes.work import Work


class PodPlace(NamedTuple):
    """name: of the cluster; None: a new one; namespace: None: that of the kubeconfig's context; config: describes a
    cluster that is made."""

    name: str | None = None
    namespace: str | None = None
    config: Path | None = None

    def running(self) -> str:
        """The address of a cluster that runs. Raises UserError."""
        if self.name is None:
            raise UserError("no cluster is named", remedy="give --name NAME; --mode per-job makes one for the job")
        if self.config is not None:
            raise UserError("--config describes no cluster that runs", remedy="leave it out, or give --mode per-job")
        return f"kubernetes://{self.namespace or ''}/{self.name}"


def run_alone_on_pods(request: SubmitRequest, place: PodPlace, *, name: str, wait: bool, as_json: bool) -> None:
    """Makes a cluster that serves the job and ends with it. name: the pipeline's."""
    from headrace.attendance.attendant import THE_JOB
    from headrace.deployment.kubernetes.work import job_work

    keyed = request.model_copy(update={"key": THE_JOB})
    cluster = _start(place, name, job_work(keyed))
    with ExitStack() as until_here:
        try:
            client, job = _submitted(until_here, cluster, keyed)
        except ExternalError as error:
            if wait:
                raise
            # its attendant has submitted it: only this host does not reach the pods
            typer.echo(f"the cluster runs the job, and does not answer here: {error}", err=True)
            job = None
        if not as_json:
            typer.echo(job or cluster.name)
        typer.echo(f"its cluster: --coordinator {cluster.election}", err=True)
        if job is not None:
            follow_job(client, job, wait=wait, as_json=as_json)
    if as_json and not wait:
        print_json({"job_id": job, "coordinator": cluster.election, "name": cluster.name})


def run_application_on_pods(program: str, place: PodPlace, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside the coordinator that leads, which submits its jobs there."""
    from headrace.deployment.kubernetes.program_file import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on Kubernetes",
            remedy="kubectl wait --for=delete deployment/NAME waits for its end",
        )
    cluster = _start(place, Path(program).stem, program_work(program))
    if as_json:
        named = {"coordinator": cluster.election, "name": cluster.name}
        print_json({"job_id": None, "application": cluster.name, **named})
    else:
        typer.echo(cluster.name)
    typer.echo(f"its cluster: --coordinator {cluster.election}", err=True)


def _start(place: PodPlace, name: str, work: Work) -> KubernetesCluster:
    from headrace.deployment.kubernetes.cluster_file import read_cluster_file
    from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster

    if place.config is None:
        raise UserError("nothing describes the cluster", remedy="give --config FILE, with at least image and ledger")
    spec = read_cluster_file(place.config)
    with open_deployer(place.namespace) as (deployer, namespace):
        cluster = KubernetesCluster(place.name or new_name(name), namespace, spec, work)
        if deployer.view(cluster.name, namespace).exists:
            raise UserError(
                f"a cluster {cluster.name} is there", remedy="give another --name, or none: then a new one is made"
            )
        deployer.start(cluster, report=lambda line: typer.echo(line, err=True))
    return cluster


def _submitted(until_here: ExitStack, cluster: KubernetesCluster, request: SubmitRequest) -> tuple[Client, str]:
    """A client, and the job's id: the attendant submits by the same key."""
    from headrace.client.discovery import connect

    client = until_here.enter_context(connect(cluster.election))
    return client, client.submit(request)


def follow_job(client: Client, job: str, *, wait: bool, as_json: bool) -> None:
    """Follows the job of a cluster of its own to its end, or until it runs."""
    try:
        if wait:
            print_end(follow(client, job), as_json=as_json)
        else:
            require_opened(client, job, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("\nthe job goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
