"""How a command ends when it fails: one message on stderr, no stack trace, and an exit code that tells whose fault.

0 done, 1 failed, 2 wrong use or an invalid pipeline, 3 cluster or broker not reachable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

import typer

from headrace.core.errors import Domain, ExternalError, HeadraceError, Unreachable, UserError

FAILED, WRONG_USE, NOT_REACHABLE = 1, 2, 3


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Around a command, or as its decorator: `error: <message>` and the exit code for what headrace raised.

    A broken invariant keeps its stack trace: it is to be reported.
    """
    try:
        yield
    except (UserError, ExternalError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(exit_code(error)) from error


def exit_code(error: HeadraceError) -> int:
    """The exit code that an error ends a command with."""
    return exit_code_of(error.domain, unreachable=isinstance(error, Unreachable))


def exit_code_of(domain: Domain, *, unreachable: bool) -> int:
    """The same, of an error that is known by its report."""
    if unreachable:
        return NOT_REACHABLE
    match domain:
        case Domain.USER:
            return WRONG_USE
        case Domain.EXTERNAL | Domain.INTERNAL:
            return FAILED
        case _:
            assert_never(domain)
