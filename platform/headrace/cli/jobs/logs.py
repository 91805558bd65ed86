"""`headrace logs`: the logs of a job's processes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.arguments import Coordinator, Job, Json, print_json
from headrace.cli.errors import reporting_errors

if TYPE_CHECKING:
    from headrace.yarn.client import YarnClient
    from headrace.yarn.records import ApplicationReport


PAUSE_S = 0.5
"""With --follow: between two requests."""
PATIENCE_SECONDS = 15.0
"""How long a command waits for the logs of an ended application: nodes aggregate them within seconds after the end."""
LOOK_SECONDS = 0.5


@reporting_errors()
def logs(
    job: Job,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=100_000, help="Number of lines, the last ones.")
    ] = 1000,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what is logged from now on, until the job ends.")
    ] = False,
    coordinator: Coordinator = None,
    as_json: Json = False,
) -> None:
    """Show the last lines that the processes of a job logged; of a cluster on YARN that has ended, those of all its
    containers. With --follow and --json there is one document a line."""
    from headrace.client.discovery import connect
    from headrace.core.errors import ExternalError, UserError

    with connect(coordinator) as client:
        try:
            found = client.log_lines(job, lines)
        except (ExternalError, UserError):
            if (ended_lines := _ended_lines(coordinator, lines)) is None:
                raise
            _show(ended_lines, as_json=as_json)
            return
        _show(found.lines, as_json=as_json)
        # asked before the lines are: all that the job logged is there once it has ended
        while follow:
            ended = _has_ended(client.status(job).state)
            found = client.log_lines(job, after=found.position)
            if found.lines:
                _show(found.lines, as_json=as_json)
            elif ended:
                return
            else:
                _pause()


def _show(lines: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        print_json({"lines": list(lines)})
        return
    for line in lines:
        typer.echo(line)


def _has_ended(state: str) -> bool:
    from headrace.client.models import FINAL_STATES

    return state in FINAL_STATES


def _pause() -> None:
    import time

    # a pipe's reader sees each line at once
    sys.stdout.flush()
    time.sleep(PAUSE_S)


def _ended_lines(coordinator: str | None, lines: int) -> tuple[str, ...] | None:
    """The last lines of each container of a cluster on YARN that has ended, below the container's id.

    None: the address names no application that has ended.

    Raises ExternalError, also where the cluster does not aggregate logs.
    """
    from headrace.client.discovery import COORDINATOR_VARIABLE
    from headrace.client.yarn_clusters import started_address
    from headrace.core.settings import Home
    from headrace.leadership.yarn_locator import SCHEME, find_application
    from headrace.yarn.client import open_yarn_client

    named = coordinator or os.environ.get(COORDINATOR_VARIABLE) or ""
    if not named.startswith(SCHEME):
        return None
    with open_yarn_client() as client:
        report = find_application(client, started_address(Home.from_environment(), named))
        return None if report.is_live else _aggregated(client, report, lines)


def _aggregated(client: YarnClient, report: ApplicationReport, lines: int) -> tuple[str, ...]:
    import time

    from headrace.core.errors import ExternalError
    from headrace.yarn.client import aggregated_logs

    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            found = aggregated_logs(client, report.application, report.user)
        except ExternalError as error:
            if time.monotonic() > deadline_s:
                raise ExternalError(
                    f"YARN has no logs of {report.application}: {error.message}",
                    remedy="is yarn.log-aggregation-enable set, and does HADOOP_CONF_DIR say so?",
                ) from error
        else:
            if found or time.monotonic() > deadline_s:
                break
        time.sleep(LOOK_SECONDS)
    shown: list[str] = []
    for container in sorted(found):
        shown += [f"==> {container}", *found[container].splitlines()[-lines:]]
    return tuple(shown)
