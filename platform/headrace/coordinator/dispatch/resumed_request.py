"""How a coordinator goes on with an operation that a user requested from an earlier one. Pure.

stop, cancel          asked again of the job: a stop that was recorded goes on, one that was not is taken
                      the job has ended with it: completed
savepoint, rescale    failed, with `retry`: as when the attempt of the job fails that they need
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.coordinator.dispatch.known_job import KnownJob
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.ledger.records import TriggerKept
from headrace.coordinator.rest.service import JobConflictError
from headrace.core.errors import Domain
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Failure

_ENDS = {"stop": "FINISHED", "cancel": "CANCELED"}
"""Operation -> the end of a job with which it has succeeded."""


def resumed(kept: TriggerKept, jobs: Mapping[str, KnownJob]) -> on.StopAsked | on.CancelAsked:
    """Returns the event that asks for it again. Raises JobConflictError if it cannot go on."""
    if kept.job in jobs:
        match kept.operation:
            case "stop":
                return on.StopAsked(kept.job, on.Stop(kept.trigger, kept.directory, kept.drain))
            case "cancel":
                return on.CancelAsked(kept.job, kept.trigger)
            case "savepoint" | "rescale":
                pass
    raise JobConflictError(f"the {kept.operation} of job {kept.job} was not finished: its coordinator has ended")


def outcome(
    kept: TriggerKept, jobs: Mapping[str, KnownJob], refused: JobConflictError
) -> tuple[str | None, Failure | None]:
    """Returns path and failure of an operation that cannot go on."""
    known = jobs.get(kept.job)
    result = None if known is None else known.result
    if result is not None and result.state == _ENDS.get(kept.operation):
        return result.savepoint, None
    if kept.operation in _ENDS:
        return None, failure_of(refused)
    return None, Failure(refused.message, Domain.EXTERNAL.value, retry=True, remedy="look at the job, and ask again")
