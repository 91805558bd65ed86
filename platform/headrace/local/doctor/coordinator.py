"""Asks a coordinator for its version and its time."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from headrace import __version__
from headrace.client.discovery import COORDINATOR_VARIABLE, connect
from headrace.connect.access import Finding, Status
from headrace.core.errors import UnreachableError
from headrace.local.doctor import verdicts

_SECOND_S = 0.5
"""HTTP's Date has whole seconds: on average it is this much too early."""


def check_coordinator(url: str | None) -> Sequence[Finding]:
    """Of the coordinator that commands would use. Raises HeadraceError if it does not answer."""
    named = url or os.environ.get(COORDINATOR_VARIABLE)
    try:
        client = connect(url)
    except UnreachableError as error:
        if named:
            raise
        return (Finding("coordinator", Status.UNCHECKED, f"{error.message}, and none is named"),)
    with client:
        sent_s = time.time()
        health, date = client.dated_health()
        answered_s = time.time()
        offset_s = None
        if date is not None:
            offset_s = parsedate_to_datetime(date).timestamp() + _SECOND_S - (sent_s + answered_s) / 2
        return verdicts.coordinator(
            verdicts.CoordinatorFacts(
                client.url, health.version, __version__, offset_s, _SECOND_S + (answered_s - sent_s) / 2
            )
        )
