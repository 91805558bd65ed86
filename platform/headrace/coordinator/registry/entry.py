"""What the registry remembers of one job. The registry changes it; everybody else only reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.registry.effects import Answer
from headrace.coordinator.registry.events import End, Stop


class Phase(StrEnum):
    """Whose a job is."""

    WAITING = "waiting"
    """A try is under way that may make it driven."""
    DRIVEN = "driven"
    """It has a driver."""
    ENDING = "ending"
    """It has an end, which the job store is keeping. It has no owner."""
    REOPENING = "reopening"
    """Its end could not be kept, and is deleted in case that it stands all the same. It has no owner."""
    ENDED = "ended"
    """The job store has its end."""
    LEFT = "left"
    """This coordinator does not go on with it. The next one will."""


_WHILE_ENDING = {
    "FINISHED": JobState.STOPPING,
    "CANCELED": JobState.CANCELLING,
    "FAILED": JobState.FAILING,
}
"""The state that people see until the end is durable: who saw the end might submit the name again."""


@dataclass(slots=True)
class Entry:
    """One job.

    tries      number of the newest try; answers of earlier ones are stale
    breaks     masters of it that failed
    waits_for  why the newest try came to nothing
    unkept     why the newest write of its end came to nothing
    stops      asked for while it waits, for its driver
    cancels    requests that are answered once the end is durable
    posted     requests for its end that its driver has to answer
    held       the driver's answers to them, for when the end is durable
    back       the phase that the job returns to if its end cannot be kept; None: its driver is over, it has to end
    elsewhere  another coordinator goes on with it (LEFT)
    """

    job: str
    name: str
    phase: Phase
    retry_s: float
    end: End | None = None
    tries: int = 0
    breaks: int = 0
    waits_for: str = ""
    unkept: str = ""
    stops: list[Stop] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    posted: list[str] = field(default_factory=list)
    held: list[Answer] = field(default_factory=list)
    back: Phase | None = None
    elsewhere: bool = False

    @property
    def holds_name(self) -> bool:
        """Whether the job runs, or may run again: also in a later coordinator."""
        return self.phase is not Phase.ENDED

    @property
    def state(self) -> str:
        """Its state for people, while it is not driven."""
        match self.phase:
            case Phase.ENDING if self.end is not None:
                return _WHILE_ENDING[self.end.state].value
            case Phase.ENDED if self.end is not None:
                return self.end.state
            case _:
                return JobState.SUSPENDED.value

    @property
    def why(self) -> str:
        """Why it is neither driven nor ended, for people."""
        match self.phase:
            case Phase.WAITING if not self.waits_for:
                return "it is being resumed"
            case Phase.WAITING:
                return f"{self.waits_for}; tried again every {self.retry_s:g} s"
            case Phase.ENDING | Phase.REOPENING if not self.unkept:
                return "its end is being recorded"
            case Phase.ENDING | Phase.REOPENING:
                return f"its end is not recorded: {self.unkept}; tried again every {self.retry_s:g} s"
            case Phase.LEFT if self.elsewhere:
                return "it was replaced: another coordinator goes on with it, or a job that took it over"
            case _:
                return f"this coordinator could not go on with it: {self.waits_for or 'see its log'}"
