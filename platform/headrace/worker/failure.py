"""Errors of a slot as they travel to people: whose fault, where, and what to do."""

from __future__ import annotations

import traceback

from headrace.core.errors import Domain, HeadraceError
from headrace.rpc.messages import Failure

TRACE_FRAMES = 8
"""How many of the innermost frames an unexpected error shows."""


def failure_of(error: BaseException, *, node: str | None = None, subtask: int | None = None) -> Failure:
    """The message form of an error. What headrace did not raise on purpose is internal and comes with a trace."""
    match error:
        case HeadraceError():
            return Failure(
                message=error.message,
                domain=error.domain.value,
                retry=error.retry,
                remedy=error.remedy,
                node=node,
                subtask=subtask,
                place=getattr(error, "place", None),
                trace=_trace(error) if error.domain is Domain.INTERNAL else None,
            )
        case OSError():
            text = f"{type(error).__name__}: {error}"
            return Failure(text, Domain.EXTERNAL.value, retry=True, node=node, subtask=subtask)
        case _:
            text = f"{type(error).__name__}: {error}"
            trace = _trace(error)
            return Failure(text, Domain.INTERNAL.value, retry=True, node=node, subtask=subtask, trace=trace)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-TRACE_FRAMES))
