"""Translates a journal's `finished` record into the transition to that end."""

from __future__ import annotations

from headrace.checkpoint.journal.records import FinishedRecord
from headrace.coordinator.job.states.transitions import ToCanceled, ToFailed, ToFinished
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


def recorded_end(finished: FinishedRecord, requests: tuple[str, ...] = ()) -> ToFinished | ToCanceled | ToFailed:
    """Returns the recorded end. `requests`: the cancels that are answered with it."""
    match finished.state:
        case "FINISHED":
            return ToFinished(finished.savepoint)
        case "CANCELED":
            return ToCanceled(requests)
        case "FAILED":
            return ToFailed(Failure(finished.error or "failed", Domain.EXTERNAL, retry=False), requests)
