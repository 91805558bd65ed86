"""From a journal's `finished` record to the state that it stands for."""

from __future__ import annotations

from headrace.checkpoint.journal.records import FinishedRecord
from headrace.coordinator.job.states.base import State
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


def recorded_end(finished: FinishedRecord, *canceled: str) -> State:
    """The end that the record says. `canceled`: requests of those who wanted it to end."""
    from headrace.coordinator.job.states.canceled import Canceled
    from headrace.coordinator.job.states.failed import Failed
    from headrace.coordinator.job.states.finished import Finished

    match finished.state:
        case "FINISHED":
            return Finished(finished.savepoint)
        case "CANCELED":
            return Canceled(*canceled)
        case "FAILED":
            return Failed(Failure(finished.error or "failed", Domain.EXTERNAL, retry=False), *canceled)
