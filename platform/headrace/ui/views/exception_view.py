"""A job's failures: where each happened, with the record's place, and what helps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.client.models import ExceptionInfo
from headrace.ui.views.formats import time_text

SHOWN = 20


@dataclass(frozen=True, slots=True)
class ExceptionView:
    """One failure. where: (label, value), among them the record's place; trace: of the user's code."""

    at: str
    message: str
    where: tuple[tuple[str, str], ...]
    remedy: str | None
    trace: str | None


def exception_views(exceptions: Sequence[ExceptionInfo]) -> tuple[ExceptionView, ...]:
    """The newest failures, at most `SHOWN`."""
    return tuple(_view(each) for each in exceptions[:SHOWN])


def _view(each: ExceptionInfo) -> ExceptionView:
    subtask = None if each.subtask is None else str(each.subtask)
    where = (
        ("Record", each.place),
        ("Node", each.node),
        ("Subtask", subtask),
        ("Worker", each.worker),
        ("Attempt", str(each.attempt)),
    )
    return ExceptionView(
        at=f"{time_text(each.at)} UTC",
        message=each.message,
        where=tuple((label, value) for label, value in where if value is not None),
        remedy=each.remedy,
        trace=each.trace,
    )
