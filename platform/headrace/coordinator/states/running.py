"""RUNNING: rows flow; checkpoints, savepoints and the end of input are begun in their turn."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.attempt import Attempt
from headrace.coordinator.effects import Answer, TellAll, WriteFinished
from headrace.coordinator.epochs import Pending, Purpose, SavepointRequest
from headrace.coordinator.events import Event, RecordWritten, RescaleAsked, SavepointAsked, StopAsked
from headrace.coordinator.job import Job, Request
from headrace.coordinator.job_state import JobState
from headrace.coordinator.states.base import State
from headrace.coordinator.states.live import Live
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure, FinishSlot

SAVEPOINTS_WAITING_MAX = 16


class Running(Live):
    """The job works."""

    name: ClassVar[JobState] = JobState.RUNNING

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._savepoints: list[SavepointRequest] = []
        self._finishing = 0
        """Ticket of the `finished` record."""

    def enter(self, job: Job, now_ms: int) -> State:
        """A rescale that led here is done."""
        job.ran = True
        if job.rescale is not None and job.rescale.id:
            job.do(Answer(job.rescale.id))
        job.rescale = None
        return self

    def on_own(self, job: Job, event: Event, now_ms: int) -> State | None:
        """Users' requests, and the end."""
        match event:
            case SavepointAsked(request, folder):
                if len(self._savepoints) >= SAVEPOINTS_WAITING_MAX:
                    text = f"{SAVEPOINTS_WAITING_MAX} savepoints of this job are waiting already"
                    job.do(Answer(request, failure=Failure(text, Domain.USER, retry=True)))
                else:
                    self._savepoints.append(SavepointRequest(request, folder))
                return self
            case StopAsked(request, folder, drain) if not self._finishing:
                from headrace.coordinator.states.stopping import Stopping

                job.stop = Request(request, folder, drain)
                self._drop_savepoints(job, "the job was asked to stop")
                return Stopping(self.attempt, self._ticket)
            case RescaleAsked(request, parallelism) if not self._finishing:
                from headrace.coordinator.states.rescaling import Rescaling

                job.rescale = Request(request)
                self._drop_savepoints(job, "the job is being rescaled")
                return Rescaling(self.attempt, parallelism, self._ticket)
            case RecordWritten(ticket) if ticket == self._finishing:
                from headrace.coordinator.states.finished import Finished

                job.do(TellAll(FinishSlot()))
                return Finished(job.config.hand_over)
            case _:
                return None

    def advance(self, job: Job, now_ms: int) -> State:
        """Savepoints first, then the last epoch, then the periodic one."""
        if self.attempt.epochs.pending is not None or self._finishing:
            return self
        if self._savepoints:
            wanted = self._savepoints.pop(0)
            self.begin(job, Purpose.SAVEPOINT, now_ms, folder=wanted.folder, request=wanted.request)
        elif self.attempt.input_ended:
            self.begin(job, Purpose.FINAL, now_ms, folder=job.config.hand_over)
        elif self.attempt.epochs.periodic_due(now_ms):
            self.begin(job, Purpose.PERIODIC, now_ms)
        return self

    def after(self, job: Job, pending: Pending, now_ms: int) -> State:
        """Answers who waited; the last epoch ends the job."""
        if pending.request is not None:
            job.do(Answer(pending.request, path=pending.folder))
        if pending.purpose is Purpose.FINAL:
            self._finishing = job.ticket()
            job.do(WriteFinished(self._finishing, JobState.FINISHED, job.config.hand_over))
        return self

    def fail(self, job: Job, failure: Failure, now_ms: int) -> State:
        """Savepoints that wait fail with the attempt."""
        self._drop_savepoints(job, failure.message)
        return super().fail(job, failure, now_ms)

    def _drop_savepoints(self, job: Job, reason: str) -> None:
        for waiting in self._savepoints:
            job.do(Answer(waiting.request, failure=Failure(f"no savepoint: {reason}", Domain.EXTERNAL, retry=True)))
        self._savepoints.clear()
