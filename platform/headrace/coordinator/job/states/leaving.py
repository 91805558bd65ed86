"""What CANCELLING and FAILING share: slots end, then the `finished` record is written.

ReleaseSlots ─> SlotsReleased ─┐
ReadJournal ─> JournalRead ────┴─> [Commit what is decided, `committed`] ─> `finished` record ─> [Fence] ─> the end;
                                   or the end that the journal has already

Nothing is fenced before the end stands in the journal: until then a coordinator that slept may still decide what is
open under these names. What is decided and not known to be committed is not fenced at all.

Committers are asked while they are there and answer: the end is wanted, and brokers that are away do not put it off.
What stays open outside then expires there, or `headrace transactions` ends it.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import ClassVar

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.coordinator.job.effects import Commit, Fence, ReadJournal, WriteCommitted, WriteFinished
from headrace.coordinator.job.events import (
    CancelAsked,
    CommitFailed,
    Committed,
    Event,
    Fenced,
    FenceFailed,
    HostFailed,
    JournalFailed,
    JournalRead,
    RecordWritten,
    Replaced,
    SlotsReleased,
    Suspend,
    Tick,
)
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.base import on_any, refuse
from headrace.coordinator.job.states.lost_output import all_lost, mixed_loss, not_committed, output_lost
from headrace.coordinator.job.states.recorded_end import recorded_end
from headrace.coordinator.job.states.transitions import STAY, Next, ToCanceled, ToFailed
from headrace.rpc.messages import Failure

JOURNAL_FAILURES_MAX = 2
"""So many failures of the journal, and the end comes unrecorded: it is wanted, and storage that is away does not undo
it; the job store remembers. The first may have been an earlier record's, or of a put that did succeed."""


class Step(Enum):
    """The answer that the state waits for before it goes on.

        GATHERING ─> COMMIT ─> COMMITTED_RECORD ─> FINISHED_RECORD ─> FENCE ─> the end

    GATHERING         the slots have to leave, and the journal has to be read, in either order
    COMMIT            committers make the decided epoch visible; skipped without a host, and where nothing is decided
    COMMITTED_RECORD  its `committed` record is written; skipped where committers fail, are late or lost output
    FINISHED_RECORD   the `finished` record is written
    FENCE             committers end what is open; skipped without a host, where nothing is, and where they were late
    """

    GATHERING = "gathering"
    COMMIT = "commit"
    COMMITTED_RECORD = "committed record"
    FINISHED_RECORD = "finished record"
    FENCE = "fence"


class Leaving:
    """Base of the two."""

    name: ClassVar[JobState]

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Who asked for the end."""
        self._step = Step.GATHERING
        self._read = False
        """The journal was read."""
        self._released = False
        """The slots have left, or were waited for long enough."""
        self._settled = False
        """The connector host failed, or committers were late: nothing is asked of them any more."""
        self._failures = 0
        """Of the journal."""
        self._closing = 0
        """Ticket of the `committed` record. Its answer may come after FINISHED_RECORD has begun."""
        self._tickets: list[int] = []
        """Of the `finished` record, one for each time that it was put."""
        self._deadline_ms = 0
        """Until when slots are waited for."""
        self._outside_ms: int | None = None
        """Until when committers are waited for; None: they are not asked yet."""
        self._decided: CheckpointRecord | None = None
        """What may not be visible though it is decided. Its names are not fenced: whoever looks at it later (the user,
        a resumed run) must still see what became of it."""
        self._before: Manifest | None = None
        """What to go on from where its output is lost."""

    @abstractmethod
    def end(self) -> ToCanceled | ToFailed:
        """The transition to the end."""

    @abstractmethod
    def error(self) -> str | None:
        """What the record says went wrong."""

    @abstractmethod
    def visible_in_part(self, failure: Failure) -> None:
        """Some of the last epoch's output is visible, some never will be: whoever sees the end has to know."""

    def enter(self, job: Job, now_ms: int) -> Next:
        """Ends the attempt's slots."""
        self._deadline_ms = now_ms + job.config.cancel_timeout_ms
        job.message = "ending its slots"
        job.release()
        job.do(ReadJournal())
        return STAY

    def on(self, job: Job, event: Event, now_ms: int) -> Next:  # noqa: PLR0911 - one step a case
        """When the slots have left, or were waited for long enough, the end is recorded."""
        match event:
            case SlotsReleased() if not job.releasing:
                self._released = True
                return self._record(job, now_ms)
            case Tick() if (due_ms := self.due_ms(job)) is not None and now_ms >= due_ms:
                # the deadline is that of the slots, and once they have left that of committers
                self._settled, self._released = self._released, True
                return self.end() if self._step is Step.FENCE else self._record(job, now_ms)
            case JournalRead() if not self._read:
                return self._on_journal(job, event, now_ms)
            case RecordWritten(ticket) if ticket in self._tickets and self._step is Step.FINISHED_RECORD:
                return self._on_ended(job, now_ms)
            case RecordWritten(ticket) if ticket == self._closing:
                self._decided = None
                return self._write(job) if self._step is Step.COMMITTED_RECORD else STAY
            case Committed() | CommitFailed() | Fenced() | FenceFailed() | HostFailed():
                return self._on_outside(job, event)
            case JournalFailed():
                return self._on_journal_failed(job)
            case CancelAsked(request):
                self.asked.append(request)
                return STAY
            case Suspend() | Replaced() if self._step is Step.FENCE:
                return self.end()
            case Suspend() | Replaced():
                for request in self.asked:
                    refuse(job, request, self.name)
                return on_any(self.name, job, event, now_ms)
            case _:
                return on_any(self.name, job, event, now_ms)

    def _on_journal(self, job: Job, read: JournalRead, now_ms: int) -> Next:
        self._read = True
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
            return self.end()
        if not self._read:
            job.do(ReadJournal())
        elif self._step is Step.FINISHED_RECORD:
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
            self._outside_ms = now_ms + job.config.cancel_timeout_ms
            assert self._decided is not None, "something is to be committed"
            job.message = f"committing epoch {self._decided.manifest.epoch}"
            job.do(Commit(self._decided.manifest.epoch, self._uncommitted))
        return STAY

    def _write_uncommitted(self, job: Job) -> Next:
        """Where something is decided, nobody has said that it is visible."""
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

    # ---- what is open outside ------------------------------------------------------------------------------------

    @property
    def _uncommitted(self) -> tuple[CommittableDocument, ...]:
        return () if self._decided is None else self._decided.manifest.committables

    def _on_outside(self, job: Job, event: Committed | CommitFailed | Fenced | FenceFailed | HostFailed) -> Next:
        waiting = self._step is Step.COMMIT
        match event:
            case HostFailed():
                self._settled = self._settled or self._outside_ms is not None
                if self._step is Step.FENCE:
                    return self.end()
                return self._write_uncommitted(job) if waiting else STAY
            case Committed(epoch, lost) if waiting and self._is_decided(epoch):
                if lost:
                    return self._on_lost(job, lost)
                self._step, self._closing = Step.COMMITTED_RECORD, job.ticket()
                job.do(WriteCommitted(self._closing, epoch))
                return STAY
            case CommitFailed(epoch) if waiting and self._is_decided(epoch):
                return self._write_uncommitted(job)
            case Fenced(attempt) | FenceFailed(attempt) if self._step is Step.FENCE and attempt == job.attempt:
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
            if failure.message != self.error():
                job.note(failure, f"the job is {self.end().name.value} all the same")
            self.visible_in_part(failure)
        return self._write(job)

    def _on_ended(self, job: Job, now_ms: int) -> Next:
        self._step = Step.FENCE
        decided = {item.name for item in self._uncommitted}
        names = {sink: tuple(name for name in own if name not in decided) for sink, own in job.open_names.items()}
        if self._settled or not job.hosted or not any(names.values()):
            return self.end()
        self._outside_ms = now_ms + job.config.cancel_timeout_ms
        job.message = "ending its open transactions"
        job.do(Fence(job.attempt, names))
        return STAY

    def due_ms(self, job: Job) -> int | None:
        """When slots, and then committers, have been waited for long enough."""
        if not self._released:
            return self._deadline_ms
        if self._step is Step.FENCE:
            return self._outside_ms
        return None if self._settled or self._step is Step.FINISHED_RECORD else self._outside_ms
