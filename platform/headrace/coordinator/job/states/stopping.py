"""STOPPING: the stop is recorded, then one last epoch is taken, after whose barrier nothing is emitted.

`stopping` record ─> (an epoch in flight ends) ─> TriggerEpoch(stop) ─> .. committed, savepoint's manifest
                  ─> `finished` record ─> FinishSlot to all ─> FINISHED
"""

from __future__ import annotations

from typing import ClassVar

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.effects import SendAll, WriteFinished, WriteStopping
from headrace.coordinator.job.events import Event, RecordWritten
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.live_epochs import Live
from headrace.coordinator.job.states.transitions import STAY, Next, ToFinished
from headrace.execution.epochs import Pending, Purpose
from headrace.rpc.messages import FinishSlot


class Stopping(Live):
    """Takes the last epoch."""

    name: ClassVar[JobState] = JobState.STOPPING

    def __init__(self, attempt: Attempt, ticket: int = 0) -> None:
        super().__init__(attempt)
        self._ticket = ticket
        self._recording = 0
        """Ticket of the `stopping` record; 0 once it is written."""
        self._finishing = 0

    def enter(self, job: Job, now_ms: int) -> Next:
        """Writes the stop to the journal first, so that a crash does not undo it."""
        assert job.stop is not None, "somebody asked"
        if job.stop.id:
            self._recording = job.ticket()
            job.do(WriteStopping(self._recording, job.stop.folder, job.stop.drain))
            return STAY
        # a stop without an id was read from the journal, so its record exists
        return self.advance(job, now_ms)

    def on_own(self, job: Job, event: Event, now_ms: int) -> Next | None:
        """Handles the two records that only this state writes."""
        match event:
            case RecordWritten(ticket) if ticket == self._recording:
                self._recording = 0
                return STAY
            case RecordWritten(ticket) if ticket == self._finishing:
                assert job.stop is not None, "somebody asked"
                job.do(SendAll(FinishSlot()))
                return ToFinished(job.stop.folder)
            case _:
                return None

    def advance(self, job: Job, now_ms: int) -> Next:
        """Triggers the last epoch once the stop is recorded and no other epoch is in flight."""
        if not (self._recording or self._finishing or self.attempt.epochs.pending):
            assert job.stop is not None, "somebody asked"
            self.begin(job, Purpose.STOP, now_ms, folder=job.stop.folder)
        return STAY

    def after(self, job: Job, pending: Pending, now_ms: int) -> Next:
        """Records the end of the job after the last epoch. An epoch that was in flight before has no consequence."""
        if pending.purpose is Purpose.STOP:
            assert job.stop is not None, "somebody asked"
            self._finishing = job.ticket()
            job.do(WriteFinished(self._finishing, JobState.FINISHED, job.stop.folder))
        return STAY
