"""The common part of CANCELLING (`cancelling`, `ending_early`) and FAILING: slots end, the end is recorded.

ReleaseSlots ─> SlotsReleased ─┐
ReadJournal ─> JournalRead ────┴─> [Commit decided output, `committed`] ─> `finished` record ─> [Fence] ─> the end;
                                   or the end that the journal contains already

Nothing is fenced before the `finished` record is in the journal. Until then another coordinator of this job, which was
suspended and continues, may still decide an epoch and commit the transactions under these names; a fence would abort
them. Output that is decided and not known to be committed is never fenced.

Committers are only called while the host runs and responds, because unreachable brokers must not delay the end.
Transactions that stay open then expire, or `headrace transactions` ends them.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import ClassVar

from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord
from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.coordinator.job import events
from headrace.coordinator.job.effects import Commit, Fence, WriteCommitted, WriteFinished
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import on_any, refuse
from headrace.coordinator.job.states.shared.lost_output import (
    all_lost,
    mixed_loss,
    not_committed,
    output_lost,
    visibility_unknown,
)
from headrace.coordinator.job.states.transitions import STAY, Next, ToCanceled, ToFailed, ToFinished
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure

JOURNAL_FAILURES_MAX = 2
"""After this many journal failures the job ends without a `finished` record: unreachable storage must not prevent a
cancel, and the job store records the end. One failure is not enough: it may belong to a record that an earlier state
requested, or to a put that has succeeded.
"""
PATIENCE_LEAST_MS = 1_000
"""How long slots and committers may take at least if a stop is overdue, in ms."""


class Step(Enum):
    """The answer that the state waits for.

        GATHERING ─> COMMIT ─> COMMITTED_RECORD ─> FINISHED_RECORD ─> FENCE ─> the end

    GATHERING          the slots have to exit, and the journal has to be read, in either order
    COMMIT             committers commit the decided epoch; skipped without a host, and if nothing is decided
    COMMITTED_RECORD   its `committed` record is written; skipped if committers fail, are late or lost output
    FINISHED_RECORD    the `finished` record is written
    FENCE              committers abort open transactions; skipped without a host, if none are open, and if committers
                       were late
    """

    GATHERING = "gathering"
    COMMIT = "commit"
    COMMITTED_RECORD = "committed record"
    FINISHED_RECORD = "finished record"
    FENCE = "fence"


class Leaving:
    """Base of the states that end a job without another epoch."""

    name: ClassVar[JobState]

    def __init__(self, within_ms: int | None = None) -> None:
        """within_ms: how long slots, and then committers, may take; None: `JobConfig.cancel_timeout_ms`. A requested
        stop that is due before bounds them, too."""
        self._within_ms = within_ms
        self._due_ms: int | None = None
        """The time at which the job ends in any case, because a stop was requested; None: none was."""
        self.asked: list[str] = []
        """The cancel requests."""
        self._step = Step.GATHERING
        self._read = False
        """Whether the journal was read."""
        self._reading = 0
        """Ticket of the last read."""
        self._released = False
        """Whether the slots have exited, or their deadline has passed."""
        self._settled = False
        """Whether committers are not called any more: the connector host failed, or they were late."""
        self._failures = 0
        """Number of journal failures."""
        self._closing = 0
        """Ticket of the `committed` record. Its answer may arrive after FINISHED_RECORD has begun."""
        self._tickets: list[int] = []
        """Tickets of the `finished` record, one for each put."""
        self._deadline_ms = 0
        """Deadline of the slots."""
        self._outside_ms: int | None = None
        """Deadline of the committers; None: they have not been called yet."""
        self._decided: CheckpointRecord | None = None
        """The decided epoch that may not be committed yet. Its names are never fenced, so that the user, or a resumed
        run, can still find out whether it is committed.
        """
        self._before: Manifest | None = None
        """The checkpoint to restore if the output of `_decided` is lost."""

    @abstractmethod
    def end(self) -> ToCanceled | ToFailed | ToFinished:
        """Returns the transition to the end."""

    def unrecorded(self, job: Job) -> Next:
        """Returns the transition to the end if the `finished` record could not be written.

        Without the journal an epoch may be decided and visible in part. The user must see that it is not known.
        """
        if self.visibility_is_unknown(job):
            job.note(visibility_unknown(job.config.job), f"the job is {self.end().name.value} all the same")
        return self.end()

    def visibility_is_unknown(self, job: Job) -> bool:
        """Whether the journal, which was not read, may have an epoch whose output expires unless it is committed."""
        return not self._read and job.facts.commit_within_ms is not None

    @abstractmethod
    def error(self) -> str | None:
        """The error text of the record."""

    @abstractmethod
    def visible_in_part(self, failure: Failure) -> None:
        """Called if some of the last epoch's output is visible and some never will be: the `finished` record must
        contain this failure."""

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the attempt's slots and reads the journal."""
        if job.stop is not None:
            # a stop that is late already, because the machine was, leaves time for the end all the same
            self._due_ms = max(job.stop.due_ms, now_ms + max(job.stop.leave_ms, PATIENCE_LEAST_MS))
        self._deadline_ms = now_ms + self._patience_ms(job, now_ms)
        job.message = "ending its slots"
        job.release()
        self._reading = job.read_journal()
        return STAY

    def _patience_ms(self, job: Job, now_ms: int) -> int:
        own_ms = job.config.cancel_timeout_ms if self._within_ms is None else self._within_ms
        return own_ms if self._due_ms is None else min(own_ms, max((self._due_ms - now_ms) // 2, PATIENCE_LEAST_MS))

    def on(self, job: Job, event: events.Event, now_ms: int) -> Next:  # noqa: PLR0911 - one step a case
        """Handles one step. The end is recorded once the slots have exited or their deadline has passed."""
        match event:
            case events.SlotsReleased() if not job.releasing:
                # releases overlap: only the answer to the last one means that no slot of any attempt is left
                self._released = True
                return self._record(job, now_ms)
            case events.Tick() if self._due_ms is not None and now_ms >= self._due_ms:
                return self.end() if self._step is Step.FENCE else self.unrecorded(job)
            case events.Tick() if (due_ms := self._step_due_ms()) is not None and now_ms >= due_ms:
                # there is one deadline at a time: first that of the slots, then that of the committers
                self._settled, self._released = self._released, True
                return self.end() if self._step is Step.FENCE else self._record(job, now_ms)
            case events.JournalRead(ticket) if ticket == self._reading and not self._read:
                # only the answer to this state's read counts: an earlier one may lack a record that was written since
                return self._on_journal(job, event, now_ms)
            case events.RecordWritten(ticket) if ticket in self._tickets and self._step is Step.FINISHED_RECORD:
                return self._on_ended(job, now_ms)
            case events.RecordWritten(ticket) if ticket == self._closing:
                # this answer may arrive late, in FINISHED_RECORD: even then the epoch is known to be committed, and its
                # names can be fenced
                self._decided = None
                return self._write(job) if self._step is Step.COMMITTED_RECORD else STAY
            case (
                events.Committed()
                | events.CommitFailed()
                | events.Fenced()
                | events.FenceFailed()
                | events.ConnectorHostFailed()
            ):
                return self._on_outside(job, event)
            case events.JournalFailed():
                return self._on_journal_failed(job)
            case events.CancelAsked(request):
                self.asked.append(request)
                return STAY
            case events.CauseFound():
                return STAY
            case events.Suspend() | events.Replaced() if self._step is Step.FENCE:
                # the end is in the journal: a transaction that stays open now only blocks readers until it expires
                return self.end()
            case events.Suspend() | events.Replaced():
                # the end is not recorded, so the next coordinator continues the job: the cancel has failed
                for request in self.asked:
                    refuse(job, request, self.name)
                return on_any(self.name, job, event, now_ms)
            case _:
                return on_any(self.name, job, event, now_ms)

    def _on_journal(self, job: Job, read: events.JournalRead, now_ms: int) -> Next:
        self._read = True
        # else the job has ended already, perhaps in another way, and that end is final
        if read.finished is None or job.begins_anew:
            self._decided, self._before = read.uncommitted, read.before
            job.open_names = dict(read.transactions)
            return self._record(job, now_ms)
        if read.finished.state == JobState.FINISHED:
            job.message = ""
            for request in self.asked:
                refuse(job, request, JobState.FINISHED)
        return recorded_end(read.finished, tuple(self.asked))

    def _on_journal_failed(self, job: Job) -> Next:
        if self._step is Step.FENCE:
            return STAY
        self._failures += 1
        if self._failures >= JOURNAL_FAILURES_MAX:
            return self.unrecorded(job)
        if not self._read:
            self._reading = job.read_journal()
        elif self._step is Step.FINISHED_RECORD:
            # the record is written again under a new ticket; the answer to either write ends the step
            self._put(job)
        elif self._step is Step.COMMITTED_RECORD:
            return self._write_uncommitted(job)
        return STAY

    def _record(self, job: Job, now_ms: int) -> Next:
        if not (self._released and self._read) or self._step in {Step.FINISHED_RECORD, Step.FENCE}:
            return STAY
        if self._settled or not job.hosted or not self._uncommitted:
            return self._write_uncommitted(job)
        if self._step is Step.GATHERING:
            self._step = Step.COMMIT
            self._outside_ms = now_ms + self._patience_ms(job, now_ms)
            assert self._decided is not None, "something is to be committed"
            job.message = f"committing epoch {self._decided.manifest.epoch}"
            job.do(Commit(self._decided.manifest.epoch, self._uncommitted))
        return STAY

    def _write_uncommitted(self, job: Job) -> Next:
        """Writes the `finished` record. If an epoch is decided, records the failure that its output may not be
        visible."""
        if self._uncommitted and self._decided is not None:
            job.note(not_committed(self._decided.manifest), f"the job is {self.end().name.value} all the same")
        return self._write(job)

    def _write(self, job: Job) -> Next:
        self._step = Step.FINISHED_RECORD
        self._put(job)
        return STAY

    def _put(self, job: Job) -> None:
        self._tickets.append(job.ticket())
        job.do(WriteFinished(self._tickets[-1], self.end().name, error=self.error()))

    # ---- open transactions ---------------------------------------------------------------------------------------

    @property
    def _uncommitted(self) -> tuple[CommittableDocument, ...]:
        return () if self._decided is None else self._decided.manifest.committables

    def _on_outside(
        self,
        job: Job,
        event: events.Committed | events.CommitFailed | events.Fenced | events.FenceFailed | events.ConnectorHostFailed,
    ) -> Next:
        waiting = self._step is Step.COMMIT
        match event:
            case events.ConnectorHostFailed():
                # if committers were called on this host, they cannot be called again; before the first call,
                # `job.hosted` decides
                self._settled = self._settled or self._outside_ms is not None
                if self._step is Step.FENCE:
                    return self.end()
                return self._write_uncommitted(job) if waiting else STAY
            case events.Committed(epoch, lost) if waiting and self._is_decided(epoch):
                if lost:
                    return self._on_lost(job, lost)
                self._step, self._closing = Step.COMMITTED_RECORD, job.ticket()
                job.do(WriteCommitted(self._closing, epoch))
                return STAY
            case events.CommitFailed(epoch) if waiting and self._is_decided(epoch):
                return self._write_uncommitted(job)
            case events.Fenced(attempt) | events.FenceFailed(attempt) if (
                self._step is Step.FENCE and attempt == job.attempt
            ):
                return self.end()
            case _:
                return STAY

    def _is_decided(self, epoch: int) -> bool:
        return self._decided is not None and epoch == self._decided.manifest.epoch

    def _on_lost(self, job: Job, lost: tuple[CommittableDocument, ...]) -> Next:
        assert self._decided is not None, "something decided was lost"
        manifest = self._decided.manifest
        if all_lost(manifest, lost):
            job.note(output_lost(manifest.epoch, lost), f"the job is {self.end().name.value} all the same")
        else:
            failure = mixed_loss(manifest, lost, self._before)
            # FAILING may have begun with the same failure, which is recorded once
            if failure.message != self.error():
                job.note(failure, f"the job is {self.end().name.value} all the same")
            self.visible_in_part(failure)
        return self._write(job)

    def _on_ended(self, job: Job, now_ms: int) -> Next:
        self._step = Step.FENCE
        # names with decided output are not fenced: that would abort output which a complete checkpoint promises
        decided = {item.name for item in self._uncommitted}
        names = {sink: tuple(name for name in own if name not in decided) for sink, own in job.open_names.items()}
        if self._settled or not job.hosted or not any(names.values()):
            return self.end()
        self._outside_ms = now_ms + self._patience_ms(job, now_ms)
        job.message = "ending its open transactions"
        job.do(Fence(job.attempt, names))
        return STAY

    def due_ms(self, job: Job) -> int | None:
        """The deadline of the slots, then that of the committers; at the latest a requested stop's."""
        return min((each for each in (self._step_due_ms(), self._due_ms) if each is not None), default=None)

    def _step_due_ms(self) -> int | None:
        if not self._released:
            return self._deadline_ms
        if self._step is Step.FENCE:
            return self._outside_ms
        return None if self._settled or self._step is Step.FINISHED_RECORD else self._outside_ms


def recorded_end(finished: FinishedRecord, requests: tuple[str, ...] = ()) -> ToFinished | ToCanceled | ToFailed:
    """Returns the recorded end. `requests`: the cancels that are answered with it."""
    match finished.state:
        case "FINISHED":
            return ToFinished(finished.savepoint)
        case "CANCELED":
            return ToCanceled(requests)
        case "FAILED":
            return ToFailed(Failure(finished.error or "failed", Domain.EXTERNAL, retry=False), requests)
