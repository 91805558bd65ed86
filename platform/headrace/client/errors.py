"""Errors over HTTP: from an error of the tree to a document, and back."""

from __future__ import annotations

from typing import assert_never

from headrace.client.models import ErrorBody, ProblemBody
from headrace.core.errors import (
    Domain,
    ExternalError,
    HeadraceError,
    InvalidPipelineError,
    Location,
    Problem,
    UserError,
)


def error_body(error: HeadraceError) -> ErrorBody:
    """The error as a document of answers and triggers."""
    found = error.problems if isinstance(error, InvalidPipelineError) else []
    problems = tuple(
        ProblemBody(
            message=problem.message,
            path=".".join(problem.path),
            file=problem.location.file if problem.location else None,
            line=problem.location.line if problem.location else None,
            column=problem.location.column if problem.location else None,
            remedy=problem.remedy,
        )
        for problem in found
    )
    return ErrorBody(
        message=error.message, domain=error.domain, remedy=error.remedy, retry=error.retry, problems=problems
    )


def error_of(body: ErrorBody) -> HeadraceError:
    """The error of a document, to be raised at the receiver."""
    match body.domain:
        case Domain.USER if body.problems:
            return InvalidPipelineError([_problem(problem) for problem in body.problems])
        case Domain.USER:
            return UserError(body.message, remedy=body.remedy, retry=body.retry)
        case Domain.EXTERNAL:
            return ExternalError(body.message, remedy=body.remedy, retry=body.retry)
        case Domain.INTERNAL:
            # the coordinator failed, not this process: a local stack trace would mislead
            return ExternalError(f"the coordinator failed: {body.message}", remedy="its log has the stack trace")
        case _:
            assert_never(body.domain)


def _problem(body: ProblemBody) -> Problem:
    place = None
    if body.file is not None and body.line is not None and body.column is not None:
        place = Location(body.file, body.line, body.column)
    path = tuple(body.path.split(".")) if body.path else ()
    return Problem(body.message, path, place, body.remedy)
