"""`headrace submit --target kubernetes`: to a cluster that runs there, or to one that is made for the job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from headrace.cli.cluster.kubernetes import open_deployer
from headrace.cli.submission.made_cluster import MadeCluster, keyed, report_application, report_job, require_running
from headrace.cli.submission.new_name import new_name
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.client.requests import SubmitRequest
    from headrace.deployment.kubernetes.work import Work


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

    own = keyed(request)
    report_job(_start(target, name, job_work(own)), own, wait=wait, as_json=as_json)


def run_application_on_pods(program: str, target: KubernetesTarget, *, wait: bool, as_json: bool) -> None:
    """Makes a cluster, and runs a program beside the coordinator that leads, which submits its jobs there."""
    from headrace.deployment.kubernetes.cluster_file import program_work

    if wait:
        raise UserError(
            "--wait means nothing for an application on Kubernetes",
            remedy="kubectl wait --for=delete deployment/NAME waits for its end",
        )
    report_application(_start(target, Path(program).stem, program_work(program)), as_json=as_json)


def _start(target: KubernetesTarget, name: str, work: Work) -> MadeCluster:
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
