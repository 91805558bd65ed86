"""The start method of processes: forked from a template, or fresh interpreters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum

from headrace.core.errors import UserError

METHOD_VARIABLE = "HEADRACE_START_METHOD"


class StartMethod(StrEnum):
    """As in `multiprocessing`; the template is the fork server."""

    FORKSERVER = "forkserver"
    SPAWN = "spawn"


def start_method(environment: Mapping[str, str] = os.environ) -> StartMethod:
    """Returns the method in HEADRACE_START_METHOD; forkserver on Linux and spawn elsewhere. Raises UserError."""
    # adoption needs PR_SET_CHILD_SUBREAPER, which only Linux has; and macOS libraries do not survive forks
    can_fork = sys.platform == "linux"
    named = environment.get(METHOD_VARIABLE, "")
    if not named:
        return StartMethod.FORKSERVER if can_fork else StartMethod.SPAWN
    try:
        method = StartMethod(named)
    except ValueError as error:
        remedy = f"set it to {' or '.join(StartMethod)}, or leave it out"
        raise UserError(f"{METHOD_VARIABLE} is {named!r}", remedy=remedy) from error
    if method is StartMethod.FORKSERVER and not can_fork:
        raise UserError(f"{METHOD_VARIABLE} is {named!r}, which needs Linux", remedy="set it to spawn, or leave it out")
    return method
