"""The end of a stop that earlier attempts did not finish. SCHEDULING delegates to it instead of starting an attempt.

    the stop's last epoch is committed
      ─> WriteSavepoint   its savepoint's manifest; skipped if the stop has none
      ─> WriteFinished    the `finished` record
      ─> Fence            transactions that are still open; skipped without a connector host, and if none are open
      ─> FINISHED

The end needs no slots. It needs the connector host only for the fence: without a host, open transactions expire. They
contain rows after the barrier of the stop's epoch, or rows of earlier attempts, so nobody waits for them.
"""

from __future__ import annotations

from enum import Enum

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.coordinator.job import events
from headrace.coordinator.job.effects import Fence, WriteFinished, WriteSavepoint
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import after_failure, on_any
from headrace.coordinator.job.states.transitions import STAY, Next, ToFinished
from headrace.execution.manifests import savepoint_of


class EndStep(Enum):
    """The answer that the end waits for."""

    SAVEPOINT = "savepoint"
    FINISHED_RECORD = "finished record"
    FENCE = "fence"


class StopEnd:
    """Finishes a stop. `stopped`: the record of its epoch, which is committed."""

    def __init__(self, stopped: CheckpointRecord) -> None:
        self._stopped = stopped
        self._step = EndStep.SAVEPOINT
        self._ticket = 0
        """Ticket of the `finished` record."""
        self._deadline_ms: int | None = None
        """The time at which the fence is given up."""

    def enter(self, job: Job) -> Next:
        """Writes the savepoint's manifest, if the stop has one."""
        if self._stopped.savepoint is None:
            return self._record_end(job)
        manifest = savepoint_of(self._stopped.manifest, self._stopped.savepoint_states)
        job.do(WriteSavepoint(manifest, self._stopped.savepoint))
        return STAY

    def on(self, job: Job, event: events.Event, now_ms: int) -> Next:
        """Handles one step."""
        match event:
            case events.SavepointWritten() if self._step is EndStep.SAVEPOINT:
                return self._record_end(job)
            case events.SavepointFailed(_, failure) if self._step is EndStep.SAVEPOINT:
                return after_failure(job, failure, now_ms)
            case events.RecordWritten(ticket) if ticket == self._ticket:
                return self._on_end_recorded(job, now_ms)
            case events.Fenced() | events.FenceFailed() if self._step is EndStep.FENCE and event.attempt == job.attempt:
                return self._finished()
            case events.ConnectorHostFailed() | events.StopDue() if self._step is EndStep.FENCE:
                return self._finished()
            case events.Tick() if self._deadline_ms is not None and now_ms >= self._deadline_ms:
                return self._finished()
            case _:
                return on_any(JobState.SCHEDULING, job, event, now_ms)

    def due_ms(self) -> int | None:
        """The deadline of the fence. The savepoint and the record have none."""
        return self._deadline_ms

    def _record_end(self, job: Job) -> Next:
        self._step, self._ticket = EndStep.FINISHED_RECORD, job.ticket()
        job.do(WriteFinished(self._ticket, JobState.FINISHED, self._stopped.savepoint))
        return STAY

    def _on_end_recorded(self, job: Job, now_ms: int) -> Next:
        if not job.hosted or not job.open_names:
            return self._finished()
        self._step, self._deadline_ms = EndStep.FENCE, now_ms + job.config.cancel_timeout_ms
        job.message = "ending its open transactions"
        job.do(Fence(job.attempt, dict(job.open_names)))
        return STAY

    def _finished(self) -> ToFinished:
        return ToFinished(self._stopped.savepoint)
