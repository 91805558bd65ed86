"""A job's history: failures, attempts and rescales. Pure. The lists are bounded and keep the newest entries.

Every change returns a new history; `job_store` writes it, REST and CLI show it.
"""

from __future__ import annotations

from headrace.checkpoint.manifest import Document
from headrace.coordinator.job.job_state import JobState
from headrace.rpc.messages import Failure

EXCEPTIONS_MAX = 50
ATTEMPTS_MAX = 50
RESCALES_MAX = 50
RESCALING = JobState.RESCALING.value
STOPPED = "STOPPED"


class ExceptionEntry(Document):
    """A failure of an attempt, with place and time (epoch ms)."""

    at_ms: int
    attempt: int
    failure: Failure


class AttemptEntry(Document):
    """One attempt. Times are epoch ms; None: not yet.

    reason           the reason of its start: `submitted` for the first attempt, `rescale`, `coordinator` if another
                     coordinator ran the attempt before, else `restart`
    restored_epoch   the restored checkpoint; None: it restored none, or a savepoint
    outcome          the state of the job at its end, such as `RESTARTING` or `FINISHED`; `STOPPED`: FINISHED by a stop
    """

    attempt: int
    reason: str
    parallelism: int
    started_at_ms: int
    restored_epoch: int | None = None
    running_at_ms: int | None = None
    ended_at_ms: int | None = None
    outcome: str | None = None


class RescaleEntry(Document):
    """A change of parallelism while `attempt` ran. `ended_at_ms`: when the job ran again."""

    at_ms: int
    attempt: int
    from_parallelism: int
    to_parallelism: int
    ended_at_ms: int | None = None


class JobHistory(Document):
    """All entries, oldest first. `changes`: number of changes so far; the newer of two histories has more."""

    changes: int = 0
    exceptions: tuple[ExceptionEntry, ...] = ()
    attempts: tuple[AttemptEntry, ...] = ()
    rescales: tuple[RescaleEntry, ...] = ()

    def failed(self, at_ms: int, attempt: int, failure: Failure) -> JobHistory:
        """Adds the failure of an attempt."""
        entry = ExceptionEntry(at_ms=at_ms, attempt=attempt, failure=failure)
        return self._changed(exceptions=(*self.exceptions, entry)[-EXCEPTIONS_MAX:])

    def started(self, at_ms: int, attempt: int, parallelism: int, restored_epoch: int | None = None) -> JobHistory:
        """Adds the start of an attempt, and the rescale that it is for, if the attempt before ended with one."""
        before = self.attempts[-1] if self.attempts else None
        entry = AttemptEntry(
            attempt=attempt,
            reason=_reason(attempt, before),
            parallelism=parallelism,
            started_at_ms=at_ms,
            restored_epoch=restored_epoch,
        )
        rescales = self.rescales
        if before is not None and before.outcome == RESCALING and before.ended_at_ms is not None:
            rescale = RescaleEntry(
                at_ms=before.ended_at_ms,
                attempt=before.attempt,
                from_parallelism=before.parallelism,
                to_parallelism=parallelism,
            )
            rescales = (*rescales, rescale)[-RESCALES_MAX:]
        return self._changed(attempts=(*self.attempts, entry)[-ATTEMPTS_MAX:], rescales=rescales)

    def running(self, at_ms: int, attempt: int) -> JobHistory:
        """Records that all subtasks of an attempt run. A rescale that waits for the attempt ends then."""
        attempts = self._with_attempt(attempt, {"running_at_ms": at_ms})
        rescales = tuple(
            each if each.ended_at_ms is not None else each.model_copy(update={"ended_at_ms": at_ms})
            for each in self.rescales
        )
        return self._changed(attempts=attempts, rescales=rescales)

    def ended(self, at_ms: int, attempt: int, outcome: str) -> JobHistory:
        """Records the end of an attempt."""
        return self._changed(attempts=self._with_attempt(attempt, {"ended_at_ms": at_ms, "outcome": outcome}))

    def _changed(self, **lists: object) -> JobHistory:
        return self.model_copy(update={**lists, "changes": self.changes + 1})

    def _with_attempt(self, attempt: int, change: dict[str, object]) -> tuple[AttemptEntry, ...]:
        return tuple(each.model_copy(update=change) if each.attempt == attempt else each for each in self.attempts)


def _reason(attempt: int, before: AttemptEntry | None) -> str:
    if attempt == 1:
        return "submitted"
    if before is None or before.outcome is None:
        # a coordinator that dies or leaves its jobs to the next one writes no end of the attempt
        return "coordinator"
    return "rescale" if before.outcome == RESCALING else "restart"
