"""The end of a failed command: one message on stderr, no stack trace, and an exit code for the kind of failure.

0 done, 1 failed, 2 wrong use or an invalid pipeline, 3 cluster or broker not reachable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar, assert_never

import typer

from headrace.core.concealing import conceal_error
from headrace.core.errors import (
    Domain,
    ExternalError,
    HeadraceError,
    InvalidPipelineError,
    Problem,
    UnreachableError,
    UserError,
)

FAILED, WRONG_USE, NOT_REACHABLE = 1, 2, 3
Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Reporting:
    """Around a command: prints a headrace error and exits with its code. as_json: the command has --json."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> None:
        """Does nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, UserError | ExternalError):
            print_error(error, as_json=self._as_json)
            raise typer.Exit(exit_code(error)) from error

    def __call__(self, command: Callable[Given, Result]) -> Callable[Given, Result]:
        """Decorates a command, whose option --json has the name `as_json`."""

        @wraps(command)
        def reported(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            with _Reporting(as_json=bool(kwargs.get("as_json"))):
                return command(*args, **kwargs)

        return reported


def reporting_errors() -> _Reporting:
    """Around a command, or as its decorator: prints a headrace error (`print_error`) and exits with its code.

    An InternalError keeps its stack trace, because it should be reported.
    """
    return _Reporting(as_json=False)


def print_error(error: HeadraceError, *, as_json: bool) -> None:
    """Prints an error, without what this command hides: as text on stderr and, if the command was given --json, as its
    document on stdout, too."""
    conceal_error(error)
    typer.echo(f"error: {error}", err=True)
    if as_json:
        typer.echo(json.dumps(error_document(error), ensure_ascii=False))


def error_document(error: HeadraceError) -> dict[str, object]:
    """An error as `--json` shows it: its message, remedy, exit code, and the problems of an invalid pipeline."""
    problems = error.problems if isinstance(error, InvalidPipelineError) else []
    return {
        "error": error.message,
        "remedy": error.remedy,
        "exit_code": exit_code(error),
        "problems": [problem_dict(problem) for problem in problems],
    }


def problem_dict(problem: Problem) -> dict[str, object]:
    """Returns a problem as `--json` shows it; file, line and column are null if they are unknown."""
    place = problem.location
    return {
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "path": ".".join(problem.path),
        "message": problem.message,
        "remedy": problem.remedy,
    }


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
