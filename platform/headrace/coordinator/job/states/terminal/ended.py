"""The common part of the final states: they answer all open requests and close the connector host."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.effects import Answer, CloseHost, Ended
from headrace.coordinator.job.events import CancelAsked, Event, RescaleAsked, SavepointAsked, StopAsked
from headrace.coordinator.job.job import Job, StopRequest
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import refuse
from headrace.coordinator.job.states.transitions import STAY, Next
from headrace.rpc.messages import Failure


class Over:
    """Base of FINISHED, CANCELED, FAILED and SUSPENDED."""

    name: ClassVar[JobState]

    def __init__(self, savepoint: str | None = None, failure: Failure | None = None) -> None:
        self._savepoint = savepoint
        self._failure = failure

    def enter(self, job: Job, now_ms: int) -> Next:
        """Answers open requests and closes the host."""
        job.message = ""
        job.savepoint = self._savepoint
        job.failure = self._failure
        job.raise_alarm(None)
        self.answer(job)
        job.stop = job.rescale = None
        job.do(CloseHost(), Ended(self.name, self._savepoint, self._failure, job.facts.parallelism))
        return STAY

    def answer(self, job: Job) -> None:
        """Fails the requests that can no longer succeed."""
        text = f"job {job.config.job} is {self.name.value}"
        because = self._failure or Failure(text, "user", retry=False)
        job.fail_request(job.stop, because)
        job.fail_request(job.rescale, because)

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """Refuses requests; ignores everything else."""
        match event:
            case SavepointAsked(request) | StopAsked(request) | RescaleAsked(request) | CancelAsked(request):
                refuse(job, request, self.name)
            case _:
                pass
        return STAY

    def due_ms(self, job: Job) -> int | None:
        """Returns None: a final state needs no tick."""
        return None


def answered(job: Job, request: str | None, path: str | None = None, note: str | None = None) -> None:
    """Answers a user's request with success."""
    if request:
        job.do(Answer(request, path=path, note=note))


def answer_stop(job: Job, path: str | None) -> None:
    """Answers a requested stop, which has ended the job. path: of its savepoint; None: it has taken none."""
    if job.stop is None:
        return
    if job.ended_early and not job.restored_own:
        path = job.config.savepoint
    answered(job, job.stop.id, path, _note(job, job.stop) if job.ended_early else None)
    job.stop, job.stopped = None, True


def _note(job: Job, stop: StopRequest) -> str:
    """Returns what the user should know who asked for the stop."""
    if job.restored is None:
        return f"ended without a checkpoint: {stop.why}; submitted again, it begins at its start"
    where = f"at checkpoint {job.restored.epoch}" if job.restored_own else "where it began"
    return f"ended {where}: {stop.why}; rows that were read since then are read again"
