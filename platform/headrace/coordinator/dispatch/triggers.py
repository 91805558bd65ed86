"""Triggers: long operations that users requested, and that clients poll until they have completed or failed. Bounded,
in memory, in the event loop."""

from __future__ import annotations

import secrets
from typing import Literal

from headrace.client.models import AuditReport, ErrorBody, Trigger
from headrace.coordinator.rest.service import JobNotFoundError
from headrace.rpc.messages import Failure

TRIGGERS_MAX = 1_000

Kind = Literal["savepoint", "stop", "cancel", "rescale", "audit"]


class Triggers:
    """The newest `TRIGGERS_MAX` operations of all jobs."""

    def __init__(self) -> None:
        self._known: dict[str, Trigger] = {}

    def begin(self, job: str, kind: Kind) -> Trigger:
        """Adds an operation in progress, and drops the oldest ones beyond the bound."""
        trigger = Trigger(trigger_id=secrets.token_hex(8), job_id=job, kind=kind)
        self._known[trigger.trigger_id] = trigger
        while len(self._known) > TRIGGERS_MAX:
            self._known.pop(next(iter(self._known)))
        return trigger

    def answer(self, trigger_id: str, path: str | None, failure: Failure | None) -> None:
        """Marks an operation as completed or failed. Ignores unknown ids, which were dropped beyond the bound."""
        trigger = self._known.get(trigger_id)
        if trigger is None:
            return
        if failure is None:
            change: dict[str, object] = {"status": "completed", "path": path}
        else:
            error = ErrorBody(
                message=failure.message,
                domain=failure.domain,  # type: ignore[arg-type]
                remedy=failure.remedy,
                retry=failure.retry,
            )
            change = {"status": "failed", "error": error}
        self._known[trigger_id] = trigger.model_copy(update=change)

    def forget(self, trigger_id: str) -> None:
        """Drops an operation that was refused: it never began."""
        self._known.pop(trigger_id, None)

    def progress(self, trigger_id: str, text: str) -> None:
        """Stores the progress text of an operation."""
        trigger = self._known.get(trigger_id)
        if trigger is not None:
            self._known[trigger_id] = trigger.model_copy(update={"progress": text})

    def audited(self, trigger_id: str, report: AuditReport) -> None:
        """Completes an audit with its report."""
        trigger = self._known.get(trigger_id)
        if trigger is not None:
            self._known[trigger_id] = trigger.model_copy(update={"status": "completed", "audit": report})

    def get(self, job: str, trigger_id: str) -> Trigger:
        """Returns the current state of the operation. Raises JobNotFoundError."""
        trigger = self._known.get(trigger_id)
        if trigger is None or trigger.job_id != job:
            raise JobNotFoundError(
                f"job {job} has no operation {trigger_id!r}",
                remedy="a restarted coordinator forgets them: look at the job",
            )
        return trigger
