"""Converts errors to Failure messages, and back into errors where a caller waits for the answer."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from headrace.core.concealing import concealed
from headrace.core.errors import (
    DataError,
    Domain,
    ExternalError,
    HeadraceError,
    InternalError,
    UnreachableError,
    UserError,
)
from headrace.core.text.concealment import Concealment
from headrace.rpc.messages import Failure

TRACE_FRAMES = 8
"""How many of the innermost frames an unexpected error shows."""


def failure_of(error: BaseException, *, node: str | None = None, subtask: int | None = None) -> Failure:
    """The message form of an error, without what this process hides. An exception outside of the HeadraceError tree is
    internal and has a trace; an OSError is external and may be retried."""
    return _without(_failure_of(error, node, subtask), concealed)


def concealed_failure(failure: Failure, concealment: Concealment) -> Failure:
    """The failure without the texts that are hidden for its job."""
    return _without(failure, concealment.text) if concealment else failure


def _without(failure: Failure, shown: Callable[[str], str]) -> Failure:
    return replace(
        failure,
        message=shown(failure.message),
        remedy=None if failure.remedy is None else shown(failure.remedy),
        trace=None if failure.trace is None else shown(failure.trace),
    )


def _failure_of(error: BaseException, node: str | None, subtask: int | None) -> Failure:
    match error:
        case HeadraceError():
            placed = error if isinstance(error, DataError) else None
            return Failure(
                message=error.message,
                domain=error.domain.value,
                retry=error.retry,
                remedy=error.remedy,
                node=placed.node or node if placed else node,
                subtask=subtask,
                place=placed.place if placed else None,
                trace=_trace(error) if error.domain is Domain.INTERNAL else None,
                unreachable=isinstance(error, UnreachableError),
            )
        case OSError():
            text = f"{type(error).__name__}: {error}"
            return Failure(text, Domain.EXTERNAL.value, retry=True, node=node, subtask=subtask)
        case _:
            text = f"{type(error).__name__}: {error}"
            trace = _trace(error)
            return Failure(text, Domain.INTERNAL.value, retry=True, node=node, subtask=subtask, trace=trace)


def error_of(failure: Failure) -> HeadraceError:
    """The error of a failure, for a caller to raise. The other process's trace is added as a note."""
    if failure.unreachable:
        return UnreachableError(failure.message, remedy=failure.remedy)
    domain = Domain(failure.domain)
    match domain:
        case Domain.USER:
            kind: type[HeadraceError] = UserError
        case Domain.EXTERNAL:
            kind = ExternalError
        case Domain.INTERNAL:
            kind = InternalError
        case _:
            assert_never(domain)
    error = kind(failure.message, remedy=failure.remedy, retry=failure.retry)
    if failure.trace is not None:
        error.add_note(failure.trace)
    return error


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-TRACE_FRAMES))
