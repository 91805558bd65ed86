"""How processes are started: forked from a template, or as fresh interpreters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from enum import StrEnum

from headrace.core.errors import UserError

METHOD_VARIABLE = "HEADRACE_START_METHOD"


class StartMethod(StrEnum):
    """As in `multiprocessing`: what a fork server is there, the template is here."""

    FORKSERVER = "forkserver"
    SPAWN = "spawn"


def start_method(environment: Mapping[str, str] = os.environ) -> StartMethod:
    """The method that HEADRACE_START_METHOD names; forkserver on Linux and spawn elsewhere. Raises UserError."""
    # a process is adopted by PR_SET_CHILD_SUBREAPER, which only Linux has; and macOS libraries do not survive forks
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
