"""`headrace cluster start|stop|status --target kubernetes`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json, print_table
from headrace.cli.errors import NOT_REACHABLE
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.deployment.kubernetes.deployer import Deployer


def start(name: str | None, namespace: str | None, config: Path | None, *, as_json: bool) -> None:
    """Applies a cluster, and waits until a coordinator leads."""
    from headrace.deployment.kubernetes.cluster_file import read_cluster_file
    from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster

    if config is None:
        raise UserError("nothing describes the cluster", remedy="give --config FILE, with at least image and ledger")
    spec = read_cluster_file(config)
    with open_deployer(namespace) as (deployer, used):
        cluster = KubernetesCluster(_required(name), used, spec)
        leader = deployer.start(cluster, report=lambda line: typer.echo(line, err=True))
    if as_json:
        print_json({"name": cluster.name, "namespace": used, "coordinator": cluster.election, "url": leader.url})
    else:
        typer.echo(f"the cluster runs: --coordinator {cluster.election}, {leader.url}")


def stop(name: str | None, namespace: str | None, *, with_secret: bool, as_json: bool) -> None:
    """Deletes a cluster."""
    with open_deployer(namespace) as (deployer, used):
        existed = deployer.stop(_required(name), used, with_secret=with_secret)
    if as_json:
        print_json({"stopped": existed})
        return
    typer.echo(f"stopped the cluster {name}" if existed else "no cluster of that name was there")
    if existed and not with_secret:
        typer.echo("its secret stays, with the key of its ledger: --with-secret deletes it", err=True)


def status(name: str | None, namespace: str | None, *, as_json: bool) -> None:
    """Shows a cluster's pods; exit code 3 if no coordinator leads."""
    with open_deployer(namespace) as (deployer, used):
        view = deployer.view(_required(name), used)
    leads = view.exists and view.leader is not None
    if as_json:
        print_json(
            {
                "exists": view.exists,
                "url": None if view.leader is None else view.leader.url,
                "coordinators": dict(view.coordinators),
                "workers": dict(view.workers),
                "trouble": view.trouble or None,
            }
        )
    elif not view.exists:
        typer.echo("no cluster of that name is there")
        if view.other_owner:
            typer.echo(f"the Deployment of that name belongs to {view.other_owner}", err=True)
    else:
        typer.echo("no coordinator leads" if view.leader is None else f"answers at {view.leader.url}")
        rows = [
            *((pod, "coordinator", phase) for pod, phase in view.coordinators.items()),
            *((pod, "worker", phase) for pod, phase in view.workers.items()),
        ]
        print_table(("POD", "ROLE", "PHASE"), rows, left=3)
        if view.trouble:
            typer.echo(view.trouble, err=True)
    if not leads:
        raise typer.Exit(NOT_REACHABLE)


@contextmanager
def open_deployer(namespace: str | None) -> Iterator[tuple[Deployer, str]]:
    """A deployer, and the namespace: that of the option, else that of the kubeconfig's context."""
    from headrace.deployment.kubernetes.deployer import Deployer
    from headrace.kubernetes.connection import open_connection

    connection = open_connection(os.environ)
    try:
        yield Deployer(connection), namespace or connection.namespace
    finally:
        connection.close()


def _required(name: str | None) -> str:
    if name is None:
        raise UserError("the cluster has no name", remedy="give --name NAME")
    return name
