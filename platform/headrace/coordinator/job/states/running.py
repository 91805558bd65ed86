"""RUNNING: all subtasks run; checkpoints, savepoints and the end of input are triggered one after the other."""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.effects import Answer, SendAll, WriteFinished
from headrace.coordinator.job.events import Event, RecordWritten, RescaleAsked, SavepointAsked, SlotLeaving, StopAsked
from headrace.coordinator.job.job import Job, Request
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import refuse
from headrace.coordinator.job.states.shared.live_epochs import Live
from headrace.coordinator.job.states.transitions import STAY, Next, ToFinished, ToRescaling, ToStopping
from headrace.core.errors import Domain
from headrace.execution.epochs import Pending, Purpose, SavepointRequest
from headrace.rpc.messages import Failure, FinishSlot

SAVEPOINTS_WAITING_MAX = 16


class Running(Live):
    """Rows flow; one epoch is in flight at a time."""

    name: ClassVar[JobState] = JobState.RUNNING

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._savepoints: list[SavepointRequest] = []
        self._finishing = 0
        """Ticket of the `finished` record; 0: not written yet."""

    def enter(self, job: Job, now_ms: int) -> Next:
        """Does nothing until an epoch is due, unless a worker of the attempt is going to end."""
        return self._move(job) if job.leaving else STAY

    def due_ms(self, job: Job) -> int | None:
        """As in all live states; also the time of the next periodic checkpoint."""
        return self.attempt.due_ms(job, periodic=not self._finishing)

    def on_own(self, job: Job, event: Event, now_ms: int) -> Next | None:
        """Handles users' requests and the `finished` record."""
        match event:
            case SavepointAsked(request, folder) if not self._finishing:
                if len(self._savepoints) >= SAVEPOINTS_WAITING_MAX:
                    text = f"{SAVEPOINTS_WAITING_MAX} savepoints of this job are waiting already"
                    job.do(Answer(request, failure=Failure(text, Domain.USER, retry=True)))
                else:
                    self._savepoints.append(SavepointRequest(request, folder))
                return STAY
            case StopAsked(request) if self._finishing:
                refuse(job, request, self.name)
                return STAY
            case StopAsked():
                job.ask_stop(event, now_ms)
                self._drop_waiting(job, "the job was asked to stop")
                # the next state needs the ticket, because an epoch in flight may wait for its record
                return ToStopping(self.attempt, self._ticket)
            case RescaleAsked(request, parallelism) if not self._finishing:
                job.rescale = Request(request)
                self._drop_waiting(job, "the job is being rescaled")
                return ToRescaling(self.attempt, parallelism, self._ticket)
            case SlotLeaving(_, worker) if not self._finishing:
                job.leaving = worker
                return self._move(job)
            case RecordWritten(ticket) if ticket == self._finishing:
                job.do(SendAll(FinishSlot()))
                return ToFinished(job.config.hand_over)
            case _:
                return None

    def _move(self, job: Job) -> Next:
        """Goes on elsewhere, from a checkpoint that the attempt takes before: a rescale to the same parallelism."""
        job.message = f"worker {job.leaving} is going to end: the job moves to other workers"
        self._drop_waiting(job, job.message)
        return ToRescaling(self.attempt, job.parallelism, self._ticket)

    def advance(self, job: Job, now_ms: int) -> Next:
        """Begins a requested savepoint, else the last epoch, else a periodic one."""
        if self.attempt.epochs.pending is not None or self._finishing:
            return STAY
        if self._savepoints and self.attempt.epochs.takes_savepoints:
            wanted = self._savepoints.pop(0)
            self.begin(job, Purpose.SAVEPOINT, now_ms, folder=wanted.folder, request=wanted.request)
        elif self.attempt.input_ended:
            self.begin(job, Purpose.FINAL, now_ms, folder=job.config.hand_over)
        elif self.attempt.epochs.periodic_due(now_ms):
            self.begin(job, Purpose.PERIODIC, now_ms)
        return STAY

    def after(self, job: Job, pending: Pending, now_ms: int) -> Next:
        """Records the end of the job after the last epoch."""
        if pending.purpose is Purpose.FINAL:
            self._drop_waiting(job, "all input has been processed")
            self._finishing = job.ticket()
            job.do(WriteFinished(self._finishing, JobState.FINISHED, job.config.hand_over))
        return STAY

    def drop_savepoints(self, job: Job, failure: Failure) -> None:
        """Fails the waiting savepoint requests, too."""
        super().drop_savepoints(job, failure)
        self._drop_waiting(job, failure.message)

    def _drop_waiting(self, job: Job, reason: str) -> None:
        for waiting in self._savepoints:
            text = f"no {'savepoint' if waiting.folder else 'checkpoint'}: {reason}"
            job.do(Answer(waiting.request, failure=Failure(text, Domain.EXTERNAL, retry=True)))
        self._savepoints.clear()
