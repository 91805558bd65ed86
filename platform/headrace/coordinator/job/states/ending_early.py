"""CANCELLING because of a stop: the job ends at its last complete checkpoint, because it took no other one in time.

As a cancel: slots end, the end is recorded, open output is aborted. Beyond a cancel,

  * decided output is committed also if the connector host has to be opened for that;
  * the end is FINISHED if the job has a checkpoint, all decided output is visible, and the end is recorded, else
    CANCELED. Either answers the stop;
  * it ends when the stop is due, whatever storage, committers and slots do.
"""

from __future__ import annotations

from typing import ClassVar

from headrace.checkpoint.manifest import CommittableDocument
from headrace.coordinator.job.effects import OpenHost
from headrace.coordinator.job.events import CancelAsked, ConnectorHostFailed, ConnectorHostOpened, Event, JournalRead
from headrace.coordinator.job.job import LEAVE_SHARE, Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import refuse
from headrace.coordinator.job.states.shared.leaving import Leaving, Step
from headrace.coordinator.job.states.transitions import STAY, Next, ToCanceled, ToFinished
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


class EndingEarly(Leaving):
    """Ends the job for a stop, without another checkpoint. why: the reason, as a part of a sentence."""

    name: ClassVar[JobState] = JobState.CANCELLING

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why
        self._leave_ms = 0
        self._opening = False
        """Whether the connector host is being opened."""
        self._in_order = True
        """Whether the end is FINISHED."""
        self._error: str | None = None

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the attempt's slots and reads the journal."""
        assert job.stop is not None, "only a requested stop ends a job early"
        job.stop.why, job.ended_early = self._why, True
        self._leave_ms = job.stop.leave_ms
        following = super().enter(job, now_ms)
        job.message = f"ending at its last complete checkpoint: {self._why}"
        return following

    def on(self, job: Job, event: Event, now_ms: int) -> Next:
        """As in `Leaving`, with the stop's bound."""
        match event:
            case ConnectorHostOpened() if self._opening:
                self._opening, job.hosted = False, True
                return self._on_ended(job, now_ms) if self._step is Step.FENCE else self._record(job, now_ms)
            case ConnectorHostFailed() if self._opening and self._step is Step.GATHERING:
                self._opening, self._settled = False, True
                return self._record(job, now_ms)
            case CancelAsked(request) if self._tickets and self._in_order:
                # the record that the job has FINISHED is on its way
                refuse(job, request, JobState.FINISHED)
                return STAY
            case CancelAsked():
                self._in_order = False
                return super().on(job, event, now_ms)
            case _:
                return super().on(job, event, now_ms)

    def end(self) -> ToFinished | ToCanceled:
        """Returns the transition to the end."""
        return ToFinished(None) if self._in_order else ToCanceled(tuple(self.asked))

    def unrecorded(self, job: Job) -> Next:
        """Ends the job although its journal may not have the end."""
        self._in_order = False
        text = "its end could not be recorded in its journal in time"
        remedy = "what goes on from its checkpoint needs --take-over"
        job.note(Failure(text, Domain.EXTERNAL, retry=True, remedy=remedy), "the job ends all the same")
        self._say(job, f"{text}: {remedy}")
        if self.visibility_is_unknown(job):
            self._say(job, "it is not known whether all output of its last checkpoint is visible")
        return super().unrecorded(job)

    def error(self) -> str | None:
        """None, or the failure by which output is not what the last checkpoint promises."""
        return self._error

    def visible_in_part(self, failure: Failure) -> None:
        """Keeps the failure for the `finished` record."""
        self._error = failure.message

    def _say(self, job: Job, text: str) -> None:
        """Adds to the answer to the user who requested the stop."""
        assert job.stop is not None, "a stop ends the job"
        job.stop.why += f"; {text}"

    def _patience_ms(self, job: Job, now_ms: int) -> int:
        match self._step:
            case Step.GATHERING | Step.FENCE:
                return self._leave_ms // 2
            case Step.COMMIT | Step.COMMITTED_RECORD | Step.FINISHED_RECORD:
                # some of the time is left for the record of the end
                return max(self._commit_due_ms - now_ms, 0)

    @property
    def _commit_due_ms(self) -> int:
        assert self._due_ms is not None, "the state was entered"
        return self._due_ms - self._leave_ms // LEAVE_SHARE

    def _on_journal(self, job: Job, read: JournalRead, now_ms: int) -> Next:
        if read.finished is None or job.begins_anew:
            job.take_journal(read, now_ms)
            self._in_order = self._in_order and job.restored_own
        else:
            # the end that was on its way is recorded, perhaps with the stop's savepoint
            job.ended_early = False
        return super()._on_journal(job, read, now_ms)

    def _record(self, job: Job, now_ms: int) -> Next:
        gathered = self._released and self._read and self._step is Step.GATHERING
        if not gathered or self._settled or job.hosted or not self._uncommitted:
            return super()._record(job, now_ms)
        if not self._opening:
            self._outside_ms = self._commit_due_ms
            job.message = "opening its sinks, to commit its last checkpoint"
            self._open_host(job)
        return STAY

    def _write_uncommitted(self, job: Job) -> Next:
        if self._uncommitted and self._decided is not None:
            self._in_order = False
            epoch, commit = self._decided.manifest.epoch, f"headrace transactions commit {job.config.job}"
            self._say(job, f"the output of checkpoint {epoch} may not be visible: `{commit}` makes it so")
        return super()._write_uncommitted(job)

    def _on_lost(self, job: Job, lost: tuple[CommittableDocument, ...]) -> Next:
        self._in_order = False
        self._say(job, "output of its last checkpoint is lost")
        return super()._on_lost(job, lost)

    def _on_ended(self, job: Job, now_ms: int) -> Next:
        # without a host, what is open would block readers until it expires
        if not job.hosted and not self._settled and self._step is not Step.FENCE and any(job.open_names.values()):
            self._step = Step.FENCE
            self._outside_ms = now_ms + self._patience_ms(job, now_ms)
            self._open_host(job)
            return STAY
        return super()._on_ended(job, now_ms)

    def _open_host(self, job: Job) -> None:
        self._opening = True
        job.do(OpenHost(dict(job.splits), formats=job.formats))
