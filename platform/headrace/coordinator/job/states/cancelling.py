"""CANCELLING: the user wants no more of it. Checkpoints stay."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.leaving import Leaving
from headrace.coordinator.job.states.transitions import ToCanceled
from headrace.rpc.messages import Failure


class Cancelling(Leaving):
    """Ends the job without another checkpoint."""

    name: ClassVar[JobState] = JobState.CANCELLING

    def __init__(self, request: str) -> None:
        super().__init__()
        self.asked.append(request)
        self._failure: Failure | None = None

    def end(self) -> ToCanceled:
        """CANCELED."""
        return ToCanceled(tuple(self.asked))

    def error(self) -> str | None:
        """Nothing went wrong, or what the user has to know of the output."""
        return None if self._failure is None else self._failure.message

    def visible_in_part(self, failure: Failure) -> None:
        """Stands in the record."""
        self._failure = failure
