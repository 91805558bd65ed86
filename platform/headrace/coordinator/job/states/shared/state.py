"""The contract of a state."""

from __future__ import annotations

from typing import ClassVar, Protocol

from headrace.coordinator.job.events import Event
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.transitions import Next


class State(Protocol):
    """One state of a job. It returns `Stay`, or a transition to the next state, which the machine then enters."""

    name: ClassVar[JobState]

    def enter(self, job: Job, now_ms: int) -> Next:
        """Called when the state begins. Returns `STAY`, or a transition that follows at once."""
        ...

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Handles an event. Ignores events that the state does not expect: they are late."""
        ...

    def due_ms(self, job: Job) -> int | None:
        """The time at which the state needs a Tick (ms); None: it needs none."""
        ...
