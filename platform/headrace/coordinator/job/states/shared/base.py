"""The contract of a state, and the events that every state handles alike."""

from __future__ import annotations

from typing import ClassVar, Protocol

from headrace.coordinator.job.effects import Answer
from headrace.coordinator.job.events import (
    CancelAsked,
    Event,
    JournalFailed,
    Replaced,
    RescaleAsked,
    SavepointAsked,
    SplitsFound,
    StopAsked,
    Suspend,
)
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.transitions import STAY, Next, ToCancelling, ToFailing, ToRestarting, ToSuspended
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


class State(Protocol):
    """One state of a job. It returns `Stay`, or a transition to the next state, which the machine then enters."""

    name: ClassVar[JobState]

    def enter(self, job: Job, now_ms: int) -> Next:
        """Called when the state begins. Returns what follows at once, if anything."""
        ...

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Handles an event. Ignores events that mean nothing in this state: they are late."""
        ...

    def due_ms(self, job: Job) -> int | None:
        """When the state needs a Tick."""
        ...


def on_any(name: JobState, job: Job, event: Event, now_ms: int) -> Next:
    """Handles an event that the non-terminal state `name` does not handle itself."""
    match event:
        case CancelAsked(request):
            return ToCancelling(request)
        case Suspend(reason) | Replaced(reason):
            return ToSuspended(reason)
        case JournalFailed(failure):
            return failed(job, failure, now_ms)
        case SavepointAsked(request) | StopAsked(request) | RescaleAsked(request):
            refuse(job, request, name)
            return STAY
        case SplitsFound(source, splits):
            # late answer to an earlier attempt's discovery: the enumerator will not return these splits again
            job.add_splits({source: splits})
            return STAY
        case _:
            return STAY


def refuse(job: Job, request: str, name: JobState) -> None:
    """Answers a user that the job cannot do that now."""
    text = f"job {job.config.job} is {name.value}, not RUNNING"
    if name is JobState.RUNNING:
        text = f"job {job.config.job} has reached its end"
    if job.message:
        text += f": {job.message}"
    job.do(Answer(request, failure=Failure(text, Domain.USER, retry=True, remedy="ask again when it is RUNNING")))


def failed(job: Job, failure: Failure, now_ms: int) -> ToRestarting | ToFailing:
    """Returns what follows a failure: another attempt after a delay, or the end."""
    job.fail_request(job.rescale, failure)
    job.rescale = None
    delay_ms = job.restart_delay_ms(failure, now_ms)
    if delay_ms is None:
        return ToFailing(failure)
    return ToRestarting(failure, now_ms + delay_ms)
