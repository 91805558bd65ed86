"""The events that every non-terminal state handles in the same way, and the transition after a failure.

A lost worker, a subtask that raised, a refused deployment and a journal that cannot be written all lead to
`after_failure`, from every state in which the job has an attempt.
"""

from __future__ import annotations

from headrace.coordinator.job import events
from headrace.coordinator.job.effects import Answer
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import ENDING, JobState
from headrace.coordinator.job.states import transitions
from headrace.core.config import duration_text
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


def on_any(name: JobState, job: Job, event: events.Event, now_ms: int) -> transitions.Next:
    """Handles an event that the non-terminal state `name` does not handle itself."""
    match event:
        case events.CancelAsked(request, within_ms):
            return transitions.ToCancelling(request, within_ms)
        case events.Suspend(reason) | events.Replaced(reason):
            return transitions.ToSuspended(reason)
        case events.CauseFound():
            return after_cause(job, event, now_ms)
        case events.JournalFailed(failure):
            return after_failure(job, failure, now_ms)
        case events.StopAsked() if job.stop is None and name not in ENDING:
            # kept for the next attempt: a stop takes a last epoch, which needs running slots
            job.ask_stop(event, now_ms)
            return transitions.STAY
        case events.StopDue():
            assert job.stop is not None, "only a requested stop is due"
            return transitions.ToEndingEarly(f"no other one was complete within {duration_text(job.stop.within_ms)}")
        case events.SavepointAsked(request) | events.StopAsked(request) | events.RescaleAsked(request):
            refuse(job, request, name)
            return transitions.STAY
        case events.SlotLeaving(_, worker):
            # an attempt that has just got the slot moves once it runs: before that there is no checkpoint to take
            job.leaving = worker
            return transitions.STAY
        case events.SplitsFound(source, splits):
            # a late answer to a discovery of an earlier attempt: the splits are kept, because the enumerator does not
            # return them again
            job.add_splits({source: splits})
            return transitions.STAY
        case _:
            return transitions.STAY


def refuse(job: Job, request: str, name: JobState) -> None:
    """Answers a user's request with the failure that the job's state does not allow it."""
    text = f"job {job.config.job} is {name.value}, not RUNNING"
    if name is JobState.RUNNING:
        text = f"job {job.config.job} has reached its end"
    if job.message:
        text += f": {job.message}"
    job.do(Answer(request, failure=Failure(text, Domain.USER, retry=True, remedy="ask again when it is RUNNING")))


def after_failure(job: Job, failure: Failure, now_ms: int) -> transitions.ToRestarting | transitions.ToFailing:
    """Returns the transition after a failure by the restart strategy (`coordinator.job.restart`): to RESTARTING after a
    delay, or to FAILING."""
    job.fail_request(job.rescale, failure)
    job.rescale = None
    delay_ms = job.restart_delay_ms(failure, now_ms)
    if delay_ms is None:
        return transitions.ToFailing(failure)
    if (repeated := job.count(failure, job.attempt, now_ms)) is not None:
        return transitions.ToFailing(repeated)
    return transitions.ToRestarting(failure, now_ms + delay_ms)


def after_cause(job: Job, found: events.CauseFound, now_ms: int) -> transitions.Stay | transitions.ToFailing:
    """Returns the transition after the cause of an earlier attempt's failure has become known: to the end, if it has
    repeated too often."""
    if found.attempt == job.explained:
        return transitions.STAY
    job.note(found.failure, "the cause of this failure", found.attempt)
    repeated = job.count(found.failure, found.attempt, now_ms)
    return transitions.STAY if repeated is None else transitions.ToFailing(repeated)
