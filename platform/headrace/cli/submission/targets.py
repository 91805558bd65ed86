"""The clusters that `headrace submit` starts for a job or a program, and those on Kubernetes and YARN that run already.

--mode per-job, --mode application      a cluster of its own on this host, which ends with its job or program
--target kubernetes, --target yarn      a running cluster there, or a new one
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.arguments import print_json
from headrace.cli.cluster.kubernetes import open_deployer
from headrace.cli.cluster.yarn import described, open_yarn_deployer
from headrace.cli.errors import FAILED
from headrace.cli.jobs.job_end import INTERRUPTED, follow, print_end, require_opened
from headrace.core.errors import ExternalError, UserError

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.requests import SubmitRequest
    from headrace.deployment.kubernetes import work as pod_work
    from headrace.deployment.yarn import application as container_work
    from headrace.local.cluster import Election
    from headrace.local.engine.compile import Compiled


_SUFFIX_BYTES = 3
_NAME_CHARS_MAX = 40


def new_name(name: str) -> str:
    """A name that no other cluster has, which begins with the name of what it serves."""
    suffix = f"-{secrets.token_hex(_SUFFIX_BYTES)}"
    fitting = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").lstrip("0123456789-")
    return f"{(fitting or 'job')[: _NAME_CHARS_MAX - len(suffix)].rstrip('-')}{suffix}"


class KubernetesTarget(NamedTuple):
    """name: of the cluster; None: a new one; namespace: None: that of the kubeconfig's context; config: describes a
    cluster that is made."""

    name: str | None = None
    namespace: str | None = None
    config: Path | None = None

    def running(self) -> str:
        """The address of a cluster that runs. Raises UserError."""
        return f"kubernetes://{self.namespace or ''}/{require_running(self.name, self.config)}"


def run_alone_on_pods(
    request: SubmitRequest, target: KubernetesTarget, *, name: str, wait: bool, as_json: bool
) -> None:
    """Makes a cluster that serves the job and ends with it. name: the pipeline's."""
    from headrace.deployment.kubernetes.work import job_work

    keyed_request = keyed(request)
    report_job(_start_on_pods(target, name, job_work(keyed_request)), keyed_request, wait=wait, as_json=as_json)


def run_application_on_pods(program: str, target: KubernetesTarget, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside the coordinator that leads, which submits its jobs there."""
    from headrace.deployment.kubernetes.cluster_file import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on Kubernetes",
            remedy="kubectl wait --for=delete deployment/NAME waits for its end",
        )
    report_application(_start_on_pods(target, Path(program).stem, program_work(program)), as_json=as_json)


def _start_on_pods(target: KubernetesTarget, name: str, work: pod_work.Work) -> MadeCluster:
    from headrace.deployment.kubernetes.cluster_file import read_cluster_file
    from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster

    if target.config is None:
        raise UserError("nothing describes the cluster", remedy="give --config FILE, with at least image and ledger")
    spec = read_cluster_file(target.config)
    with open_deployer(target.namespace) as (deployer, namespace):
        cluster = KubernetesCluster(target.name or new_name(name), namespace, spec, work)
        if deployer.view(cluster.name, namespace).exists:
            raise UserError(
                f"a cluster {cluster.name} is there", remedy="give another --name, or none: then a new one is made"
            )
        deployer.start(cluster, report=lambda line: typer.echo(line, err=True))
    return MadeCluster(cluster.name, cluster.election, cluster.name)


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

    keyed_request = keyed(request)
    report_job(_start_on_yarn(target, name, job_work(keyed_request)), keyed_request, wait=wait, as_json=as_json)


def run_application_on_yarn(program: str, target: YarnTarget, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside its coordinator, which submits its jobs there."""
    from headrace.deployment.yarn.application import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on YARN",
            remedy="yarn application -status APPLICATION shows its end",
        )
    report_application(_start_on_yarn(target, Path(program).stem, program_work(program)), as_json=as_json)


def _start_on_yarn(target: YarnTarget, name: str, work: container_work.Work) -> MadeCluster:
    from headrace.deployment.yarn.cluster_spec import YarnCluster

    cluster = YarnCluster(target.name or new_name(name), described(target.config), is_own=True)
    with open_yarn_deployer(cluster.spec) as deployer:
        started = deployer.start(cluster, work, report=lambda line: typer.echo(line, err=True))
    return MadeCluster(started.report.name, started.coordinator, started.report.application)


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

    cluster_home = own_home(Home.from_environment(), compiled.pipeline.name)
    slots = max(task.parallelism for task in compiled.physical.tasks)
    record, _ = start(cluster_home, 1, slots, election=election)
    try:
        with leader_client(cluster_home, record) as client:
            job = client.submit(request if election is None else request.model_copy(update={"key": THE_JOB}))
            if not as_json:
                typer.echo(job)
            typer.echo(f"its cluster: --coordinator {record.url}, in {cluster_home.root}", err=True)
            if wait:
                ended = follow(client, job)
            else:
                require_opened(client, job, as_json=as_json)
    except KeyboardInterrupt:
        attend(cluster_home, ["--job", job], Path.cwd())
        typer.echo("\nthe job goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BaseException:
        stop(cluster_home)
        shutil.rmtree(cluster_home.root, ignore_errors=True)
        raise
    if wait and compiled.physical.bounded:
        stop(cluster_home)
    else:
        # also after an endless job that a user has stopped: if the stop belongs to an upgrade, the cluster continues
        attend(cluster_home, ["--job", job], Path.cwd())
    if wait:
        print_end(ended, as_json=as_json)
    elif as_json:
        print_json({"job_id": job, "coordinator": record.url, "home": str(cluster_home.root)})


def run_application(file: str, slots: int | None, election: Election | None, *, wait: bool, as_json: bool) -> None:
    """Starts a cluster, and a Python program beside it that submits its jobs there. With an election, which other hosts
    may have joined before, the program runs beside the coordinator that leads.
    """
    from headrace.core.errors import UserError
    from headrace.core.settings import Home
    from headrace.job_cluster.attendant import Attendant
    from headrace.local.cluster import start, stop
    from headrace.local.cluster.attendant import HomePart, attend, own_home, run_program

    program = Path(file).resolve()
    if program.suffix != ".py" or not program.is_file():
        raise UserError(f"{file} is no Python program", remedy="--mode application runs a .py file that submits jobs")
    cluster_home = own_home(Home.from_environment(), program.stem)
    record, _ = start(cluster_home, 1, slots or SLOTS, election=election)
    if not as_json:
        typer.echo(cluster_home.root.name)
    typer.echo(f"its cluster: --coordinator {record.url}, in {cluster_home.root}", err=True)
    document = {
        "job_id": None,
        "application": cluster_home.root.name,
        "coordinator": record.url,
        "home": str(cluster_home.root),
    }
    if not wait:
        attend(cluster_home, ["--program", str(program)], Path.cwd())
        if as_json:
            print_json(document)
        return
    try:
        code = run_program(Attendant(HomePart(cluster_home), linger_s=0.0), cluster_home, [str(program)])
    except KeyboardInterrupt:
        stop(cluster_home)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({**document, "exit_code": code})
    if code:
        raise typer.Exit(FAILED)


class MadeCluster(NamedTuple):
    """A cluster that a system has started for one job or program.

    coordinator   URL by which clients find it
    shown         its name in the system
    """

    name: str
    coordinator: str
    shown: str


def require_running(name: str | None, config: Path | None) -> str:
    """The name of a cluster that runs. Raises UserError if none is named, or one is described."""
    if name is None:
        raise UserError("no cluster is named", remedy="give --name NAME; --mode per-job makes one for the job")
    if config is not None:
        raise UserError("--config describes no cluster that runs", remedy="leave it out, or give --mode per-job")
    return name


def keyed(request: SubmitRequest) -> SubmitRequest:
    """The request with the key by which the cluster's attendant submits it, too: there is one job of it."""
    from headrace.job_cluster.attendant import THE_JOB

    return request.model_copy(update={"key": THE_JOB})


def report_job(made: MadeCluster, request: SubmitRequest, *, wait: bool, as_json: bool) -> None:
    """Submits the keyed request as the attendant does, prints the job, and follows it to its end, or until it runs."""
    from headrace.client.discovery import connect

    with ExitStack() as until_here:
        job: str | None = None
        try:
            client = until_here.enter_context(connect(made.coordinator))
            job = client.submit(request)
        except ExternalError as error:
            if wait:
                raise
            # its attendant has submitted it: only this host does not reach the cluster
            typer.echo(f"the cluster runs the job, and does not answer here: {error}", err=True)
        if not as_json:
            typer.echo(job or made.shown)
        typer.echo(f"its cluster: --coordinator {made.coordinator}", err=True)
        if job is not None:
            _follow(client, job, wait=wait, as_json=as_json)
    if as_json and not wait:
        print_json({"job_id": job, "coordinator": made.coordinator, "name": made.name})


def report_application(made: MadeCluster, *, as_json: bool) -> None:
    """Prints the cluster of a program."""
    if as_json:
        named = {"coordinator": made.coordinator, "name": made.name}
        print_json({"job_id": None, "application": made.shown, **named})
    else:
        typer.echo(made.shown)
    typer.echo(f"its cluster: --coordinator {made.coordinator}", err=True)


def _follow(client: Client, job: str, *, wait: bool, as_json: bool) -> None:
    try:
        if wait:
            print_end(follow(client, job), as_json=as_json)
        else:
            require_opened(client, job, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("\nthe job goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
