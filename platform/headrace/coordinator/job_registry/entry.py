"""The registry's entry of one job. Only the registry changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job_registry.effects import Answer
from headrace.coordinator.job_registry.events import End, Stop


class Phase(StrEnum):
    """The ownership of a job."""

    WAITING = "waiting"
    """A try is in progress; if it succeeds, the job gets a driver."""
    DRIVEN = "driven"
    """It has a driver."""
    ENDING = "ending"
    """It has an end, which the job store is writing. It has no owner."""
    REOPENING = "reopening"
    """The write of its end failed, but may have reached the disk, so the end is being deleted. It has no owner."""
    ENDED = "ended"
    """The job store has its end."""
    LEFT = "left"
    """This coordinator does not continue it. The next one resumes every job without an end."""


_WHILE_ENDING = {
    "FINISHED": JobState.STOPPING,
    "CANCELED": JobState.CANCELLING,
    "FAILED": JobState.FAILING,
}
"""The state that users see until the end is durable: a user who saw the end might submit the name again."""


@dataclass(slots=True)
class Entry:
    """One job.

    tries       number of the newest try; answers of earlier ones are stale
    breaks      how many of its state machines have failed
    waits_for   why the newest try failed
    unkept      why the newest write of its end failed
    stops       stops that were requested while the job waits; its next driver receives them
    cancels     cancel requests that are answered once the end is durable
    posted      requests for its end that its driver has to answer
    held        the driver's answers to `posted`, sent once the end is durable
    back        the phase that the job returns to if its end cannot be written; None: its driver is over, so it has to
                end
    elsewhere   in LEFT: another coordinator continues it
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
        """Whether the job runs or may run again, also in a later coordinator."""
        return self.phase is not Phase.ENDED

    @property
    def state(self) -> str:
        """The job's state as users see it, while it has no driver."""
        match self.phase:
            case Phase.ENDING if self.end is not None:
                return _WHILE_ENDING[self.end.state].value
            case Phase.ENDED if self.end is not None:
                return self.end.state
            case _:
                return JobState.SUSPENDED.value

    @property
    def why(self) -> str:
        """Why the job is neither driven nor ended, as users see it."""
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
