"""Triggers: long operations that users requested, and that clients poll until they have completed or failed. Bounded,
in memory, in the event loop. All but audits and checkpoints are in the ledger, too (`kept`), so that the next
coordinator knows them.

The next coordinator continues (`resumed`) or ends (`outcome`) the operations of an earlier one:

stop, cancel          requested again from the job: a recorded stop goes on, one that was not recorded begins
                      the job has ended with it: completed
savepoint, rescale    failed, with `retry`: as when the attempt of the job fails that they need
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.client.models import AuditReport, ErrorBody, Trigger
from headrace.coordinator.dispatch.known_job import KnownJob
from headrace.coordinator.job_registry import events as on
from headrace.coordinator.ledger.records import TriggerKept
from headrace.coordinator.rest.service import JobConflictError, JobNotFoundError
from headrace.core.errors import Domain
from headrace.rpc.failure import failure_of
from headrace.rpc.messages import Failure

TRIGGERS_MAX = 1_000
STOP_LEFT_LEAST_MS = 1_000
"""What the driver of a stop has at least if it comes late."""

_ENDS = {"stop": "FINISHED", "cancel": "CANCELED"}
"""Operation -> the end of a job with which it has succeeded."""

Kind = Literal["savepoint", "checkpoint", "stop", "cancel", "rescale", "audit"]


@dataclass(frozen=True, slots=True)
class _Operation:
    """trigger: as clients see it; kept: as the ledger has it, None for an audit or a checkpoint."""

    trigger: Trigger
    kept: TriggerKept | None


class Triggers:
    """The newest `TRIGGERS_MAX` operations of all jobs."""

    def __init__(self) -> None:
        self._known: dict[str, _Operation] = {}

    def begin(self, job: str, kind: Kind, *, directory: str | None = None, drain: bool = False) -> Trigger:
        """Adds an operation in progress, and drops the oldest ones beyond the bound. directory, drain: of a stop."""
        trigger = Trigger(trigger_id=secrets.token_hex(8), job_id=job, kind=kind)
        name = trigger.trigger_id
        match kind:
            case "audit" | "checkpoint":
                kept = None
            case _:
                kept = TriggerKept(trigger=name, job=job, operation=kind, directory=directory, drain=drain)
        self._add(_Operation(trigger, kept))
        return trigger

    def restore(self, kept: TriggerKept) -> None:
        """Adds an operation of an earlier coordinator."""
        trigger = Trigger(
            trigger_id=kept.trigger,
            job_id=kept.job,
            kind=kept.operation,
            status=kept.status,
            path=kept.path,
            error=None if kept.failure is None else _error(kept.failure),
        )
        self._add(_Operation(trigger, kept))

    def _add(self, operation: _Operation) -> None:
        self._known[operation.trigger.trigger_id] = operation
        while len(self._known) > TRIGGERS_MAX:
            self._known.pop(next(iter(self._known)))

    def answer(self, trigger_id: str, path: str | None, failure: Failure | None, note: str | None = None) -> None:
        """Marks an operation as completed or failed. note: a remark on the success for the user. Ignores unknown
        ids, which were dropped beyond the bound."""
        operation = self._known.get(trigger_id)
        if operation is None:
            return
        change: dict[str, object] = {"status": "completed", "path": path}
        error: dict[str, object] = {}
        if failure is not None:
            change, error = {"status": "failed"}, {"error": _error(failure)}
        kept = None if operation.kept is None else operation.kept.model_copy(update={**change, "failure": failure})
        update = {**change, **error, "progress": note}
        self._known[trigger_id] = _Operation(operation.trigger.model_copy(update=update), kept)

    def kept(self, trigger_id: str) -> TriggerKept | None:
        """Returns the operation as the ledger should have it; None: the ledger has none of its kind, or it was
        dropped."""
        operation = self._known.get(trigger_id)
        return None if operation is None else operation.kept

    def forget(self, trigger_id: str) -> None:
        """Drops an operation that was refused: it never began."""
        self._known.pop(trigger_id, None)

    def progress(self, trigger_id: str, text: str) -> None:
        """Stores the progress text of an operation."""
        self._change(trigger_id, {"progress": text})

    def audited(self, trigger_id: str, report: AuditReport) -> None:
        """Completes an audit with its report."""
        self._change(trigger_id, {"status": "completed", "audit": report})

    def _change(self, trigger_id: str, change: dict[str, object]) -> None:
        operation = self._known.get(trigger_id)
        if operation is not None:
            self._known[trigger_id] = _Operation(operation.trigger.model_copy(update=change), operation.kept)

    def get(self, job: str, trigger_id: str) -> Trigger:
        """Returns the current state of the operation. Raises JobNotFoundError."""
        operation = self._known.get(trigger_id)
        if operation is None or operation.trigger.job_id != job:
            raise JobNotFoundError(
                f"job {job} has no operation {trigger_id!r}",
                remedy="it is an old one, or one that a restarted coordinator does not know: look at the job",
            )
        return operation.trigger


class StopsDue:
    """The times of stops that wait for their job to get a driver: an entry for each, until its time is over."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        """Request -> when its time is over, by the loop's clock."""

    def watch(self, stop: on.Stop, on_due: Callable[[], None]) -> None:
        """Begins the time of a stop. `on_due` is called when it is over."""
        loop = asyncio.get_running_loop()
        self._due_s[stop.request] = loop.time() + stop.within_ms / 1000

        def due() -> None:
            del self._due_s[stop.request]
            on_due()

        loop.call_at(self._due_s[stop.request], due)

    def left_ms(self, stop: on.Stop) -> int:
        """Returns what is left of the stop's time: all of it if it has not waited."""
        due_s = self._due_s.get(stop.request)
        if due_s is None:
            return stop.within_ms
        return max(round((due_s - asyncio.get_running_loop().time()) * 1000), STOP_LEFT_LEAST_MS)


def _error(failure: Failure) -> ErrorBody:
    return ErrorBody(
        message=failure.message,
        domain=failure.domain,  # type: ignore[arg-type]
        remedy=failure.remedy,
        retry=failure.retry,
    )


def resumed(kept: TriggerKept, jobs: Mapping[str, KnownJob]) -> on.StopAsked | on.CancelAsked:
    """Returns the event that requests an operation of an earlier coordinator again. Raises JobConflictError if the
    operation cannot go on."""
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
    """Returns path and failure of an operation of an earlier coordinator that cannot go on."""
    known = jobs.get(kept.job)
    result = None if known is None else known.result
    if result is not None and result.state == _ENDS.get(kept.operation):
        return result.savepoint, None
    if kept.operation in _ENDS:
        return None, failure_of(refused)
    return None, Failure(refused.message, Domain.EXTERNAL.value, retry=True, remedy="look at the job, and ask again")
