"""`headrace cluster start|stop|status --target yarn`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headrace.cli.arguments import print_json
from headrace.cli.errors import NOT_REACHABLE
from headrace.core.errors import UserError

if TYPE_CHECKING:
    from headrace.deployment.yarn.cluster_spec import YarnSpec
    from headrace.deployment.yarn.deployer import YarnDeployer


def start(name: str | None, config: Path | None, *, as_json: bool) -> None:
    """Submits an application, and waits until its coordinator leads."""
    from headrace.deployment.yarn.application import SESSION
    from headrace.deployment.yarn.cluster_spec import YarnCluster

    cluster = YarnCluster(required_name(name), described(config))
    with open_yarn_deployer(cluster.spec) as deployer:
        started = deployer.start(cluster, SESSION, report=lambda line: typer.echo(line, err=True))
    if as_json:
        application = started.report.application
        named = {"name": cluster.name, "application": application}
        print_json({**named, "coordinator": started.coordinator, "url": started.report.url})
    else:
        typer.echo(f"the cluster runs: --coordinator {started.coordinator}, {started.report.url}")


def stop(name: str | None, *, with_secret: bool, as_json: bool) -> None:
    """Ends the application of a cluster."""
    named = required_name(name)
    with open_yarn_deployer() as deployer:
        existed = deployer.stop(named)
        if with_secret:
            deployer.forget(named)
    if as_json:
        print_json({"stopped": existed})
        return
    typer.echo(f"stopped the cluster {named}" if existed else "no cluster of that name was there")
    if existed and not with_secret:
        typer.echo("its token and the key of its ledger stay in this home: --with-secret deletes them", err=True)


def status(name: str | None, *, as_json: bool) -> None:
    """Shows the application of a cluster; exit code 3 if no coordinator leads."""
    with open_yarn_deployer() as deployer:
        found = deployer.view(required_name(name))
    leads = found.is_live and bool(found.url)
    if as_json:
        print_json(
            {
                "application": found.application,
                "state": found.state,
                "final_status": found.final_status.value,
                "attempt": found.attempt,
                "queue": found.queue,
                "url": found.url or None,
                "trouble": found.diagnostics or None,
            }
        )
    else:
        where = f"answers at {found.url}" if leads else "no coordinator leads"
        typer.echo(f"{where}; {found.application} is {found.state}, attempt {found.attempt}, queue {found.queue}")
        if found.diagnostics:
            typer.echo(found.diagnostics, err=True)
    if not leads:
        raise typer.Exit(NOT_REACHABLE)


@contextmanager
def open_yarn_deployer(spec: YarnSpec | None = None) -> Iterator[YarnDeployer]:
    """A deployer with a client of its own. spec: whose login of Kerberos is used, if it has one."""
    from headrace.core.settings import Home
    from headrace.deployment.yarn.deployer import YarnDeployer
    from headrace.yarn.client import open_yarn_client
    from headrace.yarn.kerberos import KeytabLogin

    named = None if spec is None else spec.kerberos
    login = None if named is None else KeytabLogin(named.principal, Path(named.keytab))
    with open_yarn_client(os.environ, login) as client:
        yield YarnDeployer(client, Home.from_environment(), os.environ)


def described(config: Path | None) -> YarnSpec:
    """The description in `--config`. Raises UserError."""
    from headrace.deployment.yarn.cluster_spec import read_yarn_file

    if config is None:
        raise UserError("nothing describes the cluster", remedy="give --config FILE, with at least ledger and python")
    return read_yarn_file(config)


def required_name(name: str | None) -> str:
    """The name of a cluster. Raises UserError."""
    if name is None:
        raise UserError("the cluster has no name", remedy="give --name NAME")
    return name
