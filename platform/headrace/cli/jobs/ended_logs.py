"""What the containers of a cluster on YARN have printed, once its application has ended: nobody is there to ask."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from headrace.client.discovery import COORDINATOR_VARIABLE
from headrace.core.errors import ExternalError

if TYPE_CHECKING:
    from headrace.yarn.client import YarnClient
    from headrace.yarn.records import ApplicationReport

PATIENCE_SECONDS = 15.0
"""Nodes put the logs together within seconds after the end."""
LOOK_SECONDS = 0.5


def ended_logs(coordinator: str | None, lines: int) -> tuple[str, ...] | None:
    """The last lines of each container, below its id; None: the address names no application that has ended.

    Raises ExternalError, also where the cluster does not aggregate logs.
    """
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
    from headrace.yarn.logs import aggregated_logs

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
