"""`headrace cluster`: the session cluster of this host."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Json, print_json, print_table
from headrace.cli.cluster import kubernetes, yarn
from headrace.cli.cluster.cluster_target import (
    ClusterConfig,
    ClusterName,
    ClusterTarget,
    ClusterTargetOption,
    Namespace,
    WithSecret,
    require_target_options,
)
from headrace.cli.cluster.election_options import Ha, Host, KeyFile, Ledger, election_of
from headrace.cli.cluster.tls_options import TlsCa, TlsCert, TlsKey
from headrace.cli.errors import NOT_REACHABLE, reporting_errors
from headrace.core.text.plural import plural

if TYPE_CHECKING:
    from headrace.core.settings import Home
    from headrace.local.cluster import ClusterRecord, ClusterStatus

app = typer.Typer(
    name="cluster",
    help="A session cluster on this host: a coordinator and workers that run until they are stopped.",
    no_args_is_help=True,
)


@app.command(short_help="start it, or the processes of it that do not run")
@reporting_errors()
def start(
    context: typer.Context,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Worker processes. Default: as at the last start, or 1.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=256, help="Slots per worker. Default: as at the last start, or 4.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the REST API on 127.0.0.1. Default: as at the last start."),
    ] = None,
    # a cluster always has a token: earlier versions' flag is accepted, without effect
    token: Annotated[bool, typer.Option("--token", hidden=True)] = False,
    ha: Ha = None,
    ledger: Ledger = None,
    key_file: KeyFile = None,
    host: Host = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Also start the page, on 127.0.0.1; its address is printed.")
    ] = False,
    target: ClusterTargetOption = ClusterTarget.LOCAL,
    name: ClusterName = None,
    namespace: Namespace = None,
    config: ClusterConfig = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    as_json: Json = False,
) -> None:
    """Start the cluster of HEADRACE_HOME, or those of its processes that are not running. With --ha, on each of several
    hosts, they are this host's part of one cluster. With --target kubernetes or yarn the cluster of that name."""
    require_target_options(context, target)
    if target is ClusterTarget.KUBERNETES:
        kubernetes.start(name, namespace, config, as_json=as_json)
        return
    if target is ClusterTarget.YARN:
        yarn.start(name, config, as_json=as_json)
        return
    from headrace.cli.cluster.page_extra import require_page_extra
    from headrace.core.settings import Home
    from headrace.local.cluster import page_link
    from headrace.local.cluster import start as start_cluster
    from headrace.tls.checks import checked_files

    tls = checked_files(tls_cert, tls_key, tls_ca)
    election = election_of(ha, ledger, key_file, host)
    if ui:
        require_page_extra()
    home = Home.from_environment()
    record, started = start_cluster(home, workers, slots, port=port, tls=tls, election=election, page=ui)
    if as_json:
        print_json({"started": list(started), **_fields(home, record)})
        return
    shape = f"{plural(len(record.workers), 'worker')} with {plural(record.slots, 'slot')} each"
    typer.echo(f"the cluster {'runs' if started else 'already runs'} at {record.url}, {shape}")
    if record.page is not None:
        typer.echo(f"its page: {page_link(home, record)}")
    if started:
        typer.echo(f"started {', '.join(started)}", err=True)


@app.command(short_help="stop it; jobs continue when it is started again")
@reporting_errors()
def stop(
    context: typer.Context,
    target: ClusterTargetOption = ClusterTarget.LOCAL,
    name: ClusterName = None,
    namespace: Namespace = None,
    with_secret: WithSecret = False,
    as_json: Json = False,
) -> None:
    """Stop the cluster of HEADRACE_HOME, or with --target kubernetes or yarn that of the name. Running jobs are
    suspended, and go on when it is started again."""
    require_target_options(context, target)
    if target is ClusterTarget.KUBERNETES:
        kubernetes.stop(name, namespace, with_secret=with_secret, as_json=as_json)
        return
    if target is ClusterTarget.YARN:
        yarn.stop(name, with_secret=with_secret, as_json=as_json)
        return
    from headrace.core.settings import Home
    from headrace.local.cluster import stop as stop_cluster

    record = stop_cluster(Home.from_environment())
    if as_json:
        print_json({"stopped": record is not None})
    else:
        typer.echo("no cluster was running" if record is None else f"stopped the cluster at {record.url}")


@app.command("list", short_help="list the clusters of this home, also those of one job")
@reporting_errors()
def list_(as_json: Json = False) -> None:
    """List the clusters on this host and on YARN that HEADRACE_HOME knows: its session cluster, and those that serve
    one job or one application. --coordinator URL reaches any of them."""
    from headrace.core.settings import Home
    from headrace.local.cluster.lifecycle import known_clusters

    found = known_clusters(Home.from_environment())
    if as_json:
        print_json({"clusters": [asdict(each) for each in found]})
    elif not found:
        typer.echo("no clusters", err=True)
    else:
        rows = [(each.name, each.kind, each.state, str(each.jobs_running), each.url) for each in found]
        print_table(("NAME", "KIND", "STATE", "JOBS", "COORDINATOR"), rows, left=5)


@app.command(short_help="print what runs; exit code 3 if it does not answer")
@reporting_errors()
def status(
    context: typer.Context,
    target: ClusterTargetOption = ClusterTarget.LOCAL,
    name: ClusterName = None,
    namespace: Namespace = None,
    as_json: Json = False,
) -> None:
    """Show the processes of the cluster of HEADRACE_HOME, or of that of the name: with --target kubernetes its pods,
    with --target yarn its application. Exit code 3 if it does not answer."""
    require_target_options(context, target)
    if target is ClusterTarget.KUBERNETES:
        kubernetes.status(name, namespace, as_json=as_json)
        return
    if target is ClusterTarget.YARN:
        yarn.status(name, as_json=as_json)
        return
    from headrace.core.settings import Home
    from headrace.local.cluster import page_link
    from headrace.local.cluster import status as cluster_status

    home = Home.from_environment()
    found = cluster_status(home)
    if as_json:
        print_json(_status_fields(home, found))
    elif found.record is None:
        typer.echo("not running; start it with: headrace cluster start")
    else:
        how = "answers" if found.answering else "does not answer"
        free = f", {found.slots_free} of {found.slots} slots free, {plural(found.jobs_running, 'job')} running"
        typer.echo(f"{how} at {found.record.url}{free if found.answering else ''}")
        rows = [
            (member.name, "runs" if member.name in found.running else "dead", str(member.pid), str(member.log))
            for member in found.record.members
        ]
        print_table(("PROCESS", "STATE", "PID", "LOG"), rows, left=4)
        if found.record.page is not None:
            typer.echo(f"its page: {page_link(home, found.record)}")
        if found.dead:
            typer.echo("headrace cluster start starts what is missing", err=True)
    if not found.answering:
        raise typer.Exit(NOT_REACHABLE)


def _fields(home: Home, record: ClusterRecord) -> dict[str, object]:
    from headrace.local.cluster import page_link

    page = record.page
    return {
        "ui": None if page is None else {"pid": page.pid, "log": str(page.log), "url": page_link(home, record)},
        "url": record.url,
        "slots": record.slots,
        "coordinator": {"pid": record.coordinator.pid, "log": str(record.coordinator.log)}
        if record.coordinator
        else None,
        "workers": [{"name": each.name, "pid": each.pid, "log": str(each.log)} for each in record.workers],
    }


def _status_fields(home: Home, found: ClusterStatus) -> dict[str, object]:
    document: dict[str, object] = {
        "answering": found.answering,
        "running": list(found.running),
        "dead": list(found.dead),
    }
    if found.record is None:
        return document
    document |= _fields(home, found.record)
    return document | {
        "slots_total": found.slots,
        "slots_free": found.slots_free,
        "jobs_running": found.jobs_running,
    }
