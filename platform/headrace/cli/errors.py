"""The end of a failed command: one message on stderr, no stack trace, and an exit code for the kind of failure.

0 done, 1 failed, 2 wrong use or an invalid pipeline, 3 cluster or broker not reachable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

import typer

from headrace.core.errors import Domain, ExternalError, HeadraceError, UnreachableError, UserError

FAILED, WRONG_USE, NOT_REACHABLE = 1, 2, 3


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Around a command, or as its decorator: prints `error: <message>` and exits with the code of a headrace error.

    An InternalError keeps its stack trace, because it should be reported.
    """
    try:
        yield
    except (UserError, ExternalError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(exit_code(error)) from error


def exit_code(error: HeadraceError) -> int:
    """Returns the exit code for an error."""
    return exit_code_of(error.domain, unreachable=isinstance(error, UnreachableError))


def exit_code_of(domain: Domain, *, unreachable: bool) -> int:
    """Returns the exit code for an error that is known by its report."""
    if unreachable:
        return NOT_REACHABLE
    match domain:
        case Domain.USER:
            return WRONG_USE
        case Domain.EXTERNAL | Domain.INTERNAL:
            return FAILED
        case _:
            assert_never(domain)
