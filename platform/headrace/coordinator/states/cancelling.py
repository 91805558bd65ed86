"""CANCELLING: the user wants no more of it. Checkpoints stay."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job_state import JobState
from headrace.coordinator.states.base import State
from headrace.coordinator.states.leaving import Leaving


class Cancelling(Leaving):
    """Ends the job without another checkpoint."""

    name: ClassVar[JobState] = JobState.CANCELLING

    def __init__(self, request: str) -> None:
        super().__init__()
        self.asked.append(request)

    def end(self) -> State:
        """CANCELED."""
        from headrace.coordinator.states.canceled import Canceled

        return Canceled(*self.asked)

    def error(self) -> str | None:
        """Nothing went wrong."""
        return None
