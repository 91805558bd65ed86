"""CANCELLING: a cancel, or a stop that takes no last checkpoint, ends the job: slots end, open output is aborted.

Checkpoints stay. This module has the cancel; `ending_early` has the stop.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.leaving import Leaving
from headrace.coordinator.job.states.transitions import ToCanceled
from headrace.rpc.messages import Failure


class Cancelling(Leaving):
    """Ends the job without another checkpoint."""

    name: ClassVar[JobState] = JobState.CANCELLING

    def __init__(self, request: str, within_ms: int | None = None) -> None:
        super().__init__(within_ms)
        self.asked.append(request)
        self._failure: Failure | None = None

    def end(self) -> ToCanceled:
        """Returns the transition to CANCELED."""
        return ToCanceled(tuple(self.asked))

    def error(self) -> str | None:
        """None, or the failure by which only part of an epoch's output is visible: the user must see it."""
        return None if self._failure is None else self._failure.message

    def visible_in_part(self, failure: Failure) -> None:
        """Keeps the failure for the `finished` record."""
        self._failure = failure
