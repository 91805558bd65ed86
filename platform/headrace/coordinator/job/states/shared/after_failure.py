"""The transition after a failure: to RESTARTING or to FAILING, as the job's restart strategy decides.

A lost worker, a subtask that raised, a refused deployment and a journal that cannot be written all end here, from every
state in which the job has an attempt. `coordinator.job.restart` has the strategies.
"""

from __future__ import annotations

from headrace.coordinator.job.events import CauseFound
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.states.transitions import STAY, Stay, ToFailing, ToRestarting
from headrace.rpc.messages import Failure


def after_failure(job: Job, failure: Failure, now_ms: int) -> ToRestarting | ToFailing:
    """Returns the transition after a failure: to another attempt after a delay, or to the end."""
    job.fail_request(job.rescale, failure)
    job.rescale = None
    delay_ms = job.restart_delay_ms(failure, now_ms)
    if delay_ms is None:
        return ToFailing(failure)
    if (repeated := job.count(failure, job.attempt, now_ms)) is not None:
        return ToFailing(repeated)
    return ToRestarting(failure, now_ms + delay_ms)


def after_cause(job: Job, found: CauseFound, now_ms: int) -> Stay | ToFailing:
    """Returns the transition after the cause of an earlier attempt's failure has become known: to the end, if it has
    repeated too often."""
    if found.attempt == job.explained:
        return STAY
    job.note(found.failure, "the cause of this failure", found.attempt)
    repeated = job.count(found.failure, found.attempt, now_ms)
    return STAY if repeated is None else ToFailing(repeated)
