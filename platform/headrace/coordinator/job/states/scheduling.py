"""SCHEDULING: the journal is read and decided output is committed; then come slots, sources and the attempt's record.

    ReadJournal ─> finished?  ──────────────────────────────────────────────> the recorded end
                ─> OpenHost ─> a decided epoch is not committed? Commit, `committed`
                                 └─> that was the epoch of a stop? `stop_end` ─> FINISHED
                   RequestSlots (at the same time)
                ─> all there: `attempt` record ─> Fence what earlier attempts left open ─> DEPLOYING

Every attempt begins here, so recovery happens here: after a failed attempt, and after the death of a coordinator. A new
coordinator's machine has no memory of the job; it goes from CREATED to this state, and continues from what the journal
contains. It adopts no slot of the earlier attempt.

No slot receives anything of the new attempt, and nothing is fenced, before the attempt's record is in the journal.

A connector's refusal to open before the job's first attempt ends the job, as it ends `headrace run`, because a retry
does not correct a wrong address (unless the job was accepted earlier: `Beginning.RESUMED`). From the first attempt on a
refusal is a failure like any other.

Slots, sources and sinks have the job's `slots_timeout_ms`; then the attempt fails, and the restart strategy decides.

A stop ends the job here as soon as its journal is read, if it has a complete checkpoint: another attempt could save
nothing more at its start. A stop with a savepoint or with drain, or of a job without a checkpoint, needs that attempt,
and waits for it within its bound.

If decided output is lost, the journal is read once more, because another coordinator may have continued the job. If all
output of the epoch is lost, the checkpoint before it is restored. If only some of it is lost, the job goes to FAILING,
and the user has to choose.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, assert_never

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.coordinator.job import events
from headrace.coordinator.job.attempt import overdue
from headrace.coordinator.job.effects import (
    Commit,
    Fence,
    OpenHost,
    RequestSlots,
    WriteAttempt,
    WriteCommitted,
    WriteSavepoint,
)
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states import transitions
from headrace.coordinator.job.states.shared.any_event import after_failure, on_any
from headrace.coordinator.job.states.shared.leaving import recorded_end
from headrace.coordinator.job.states.shared.lost_output import all_lost, mixed_loss, output_lost
from headrace.coordinator.job.states.stop_end import StopEnd
from headrace.core.errors import Domain
from headrace.core.text.plural import plural
from headrace.execution.manifests import savepoint_of
from headrace.rpc.messages import Failure


class Step(Enum):
    """The answer that the state waits for.

        WAITING ─> COMMIT ─> COMMITTED_RECORD ─┬─> WAITING ─> ATTEMPT_RECORD ─> FENCE ─> DEPLOYING
           ^         │                         └─> the end of a stop (`stop_end`) ─> FINISHED
           └─────────┘ all of the epoch's output is lost

    WAITING            the answer to ReadJournal, the connector host or slots are missing
    COMMIT             committers commit the decided epoch
    COMMITTED_RECORD   its `committed` record is written
    ATTEMPT_RECORD     the new attempt's record is written
    FENCE              committers end the transactions of earlier attempts; skipped if none are open

    WAITING goes directly to COMMITTED_RECORD if the decided epoch has no output, or if a Commit that an earlier attempt
    requested is answered. It goes directly to the end of the stop if the stop's epoch is committed already.
    """

    WAITING = "waiting"
    COMMIT = "commit"
    COMMITTED_RECORD = "committed record"
    ATTEMPT_RECORD = "attempt record"
    FENCE = "fence"


class Scheduling:
    """Prepares an attempt."""

    name: ClassVar[JobState] = JobState.SCHEDULING

    def __init__(self) -> None:
        self._decided: CheckpointRecord | None = None
        """The epoch to commit first."""
        self._before: Manifest | None = None
        """The checkpoint to restore if the output of `_decided` is lost."""
        self._lost: tuple[CommittableDocument, ...] = ()
        self._stopped: CheckpointRecord | None = None
        """The epoch of a stop: the job ends instead of starting an attempt."""
        self._end: StopEnd | None = None
        """The end of that stop, once it has begun."""
        self._unfinished: CheckpointRecord | None = None
        """An epoch whose savepoint may lack its manifest. It is written with the attempt's record, best effort."""
        self._read: events.JournalRead | None = None
        """The answer to ReadJournal. Events of the host or of slots that arrive before it are of an earlier attempt."""
        self._reading = 0
        """Ticket of the ReadJournal that is not answered yet, or 0. The answer to an earlier ReadJournal may lack the
        record of an attempt that was written since; with it a second attempt would get the same number.
        """
        self._host = False
        self._workers: tuple[str, ...] | None = None
        self._deadline_ms: int | None = None
        self._step = Step.WAITING
        self._ticket = 0
        """Ticket of the record that the step waits for."""

    def enter(self, job: Job, now_ms: int) -> transitions.Next:
        """Reads the journal."""
        job.message = "reading its journal"
        self._reading = job.read_journal()
        return transitions.STAY

    def on(self, job: Job, event: events.Event, now_ms: int) -> transitions.Next:
        """Handles one step."""
        if self._end is not None:
            return self._end.on(job, event, now_ms)
        return self._on_step(job, event, now_ms)

    def _on_step(self, job: Job, event: events.Event, now_ms: int) -> transitions.Next:  # noqa: PLR0911, PLR0912 - one step a case
        match event:
            case events.JournalRead(ticket) if ticket == self._reading:
                self._reading = 0
                if self._read is None:
                    return self._on_journal(job, event, now_ms)
                return self._on_read_again(job, event, now_ms)
            case (
                events.ConnectorHostOpened()
                | events.ConnectorHostFailed()
                | events.SlotFailed()
                | events.CommitFailed()
            ) if self._read is None:
                # these are late events of the previous attempt
                return transitions.STAY
            case events.ConnectorHostOpened():
                self._on_host(job, event)
                self._name_wait(job)
                return self._next(job, now_ms)
            case events.SlotsGranted(attempt, workers) if attempt == job.attempt + 1:
                # any other grant is stale: its slots were released with their attempt
                self._workers = workers
                return self._next(job, now_ms)
            case events.Committed(epoch, lost) if self._is_decided(epoch):
                self._on_commit(job, lost)
                return transitions.STAY
            case events.CommitFailed(epoch, failure) if self._is_decided(epoch):
                return after_failure(job, failure, now_ms)
            case events.Fenced(attempt) if self._step is Step.FENCE and attempt == job.attempt:
                return transitions.ToDeploying()
            case events.FenceFailed(attempt, failure) if self._step is Step.FENCE and attempt == job.attempt:
                # an unfenced writer of an earlier attempt could still write under its name
                return after_failure(job, failure, now_ms)
            case events.RecordWritten(ticket) if ticket == self._ticket:
                return self._on_record(job, now_ms)
            case events.ConnectorHostFailed() if self._stopped is not None and self._decided is None:
                # a stop whose epoch is committed needs no connectors any more
                return self._end_stop(job, self._stopped)
            case events.ConnectorHostFailed(failure, refused=True) if job.ends_if_refused:
                return transitions.ToFailing(failure)
            case events.ConnectorHostFailed(failure) | events.SlotFailed(_, failure):
                return after_failure(job, failure, now_ms)
            case events.Tick():
                return self._on_tick(job, now_ms)
            case _:
                return self._on_other(job, event, now_ms)

    def _on_other(self, job: Job, event: events.Event, now_ms: int) -> transitions.Next:
        match event:
            case events.StopAsked() if job.stop is None:
                job.ask_stop(event, now_ms)
                return self._end_early(job) if self._read is not None else transitions.STAY
            case _:
                # the manifest of `_unfinished` is written best effort: the job does not wait for its SavepointWritten
                return on_any(self.name, job, event, now_ms)

    def due_ms(self, job: Job) -> int | None:
        """The time of the next deadline or alarm."""
        if self._end is not None:
            return self._end.due_ms()
        times = (self._patience_due_ms(), self._alarm_due_ms(job))
        return min((each for each in times if each is not None), default=None)

    def _on_tick(self, job: Job, now_ms: int) -> transitions.Next:
        alarm_ms, patience_ms = self._alarm_due_ms(job), self._patience_due_ms()
        if alarm_ms is not None and now_ms >= alarm_ms:
            assert job.facts.commit_within_ms is not None, "what expires has a time"
            job.raise_alarm(overdue(job.facts.commit_within_ms // 2))
        if patience_ms is None or now_ms < patience_ms:
            return transitions.STAY
        return after_failure(job, self._too_few(job), now_ms)

    def _alarm_due_ms(self, job: Job) -> int | None:
        """The time at which decided output has waited for its commit for half of its transaction timeout."""
        within_ms = job.facts.commit_within_ms
        if (
            self._decided is None
            or not self._decided.manifest.committables
            or within_ms is None
            or job.alarm is not None
        ):
            return None
        return self._decided.manifest.created_at_ms - job.config.wall_offset_ms + within_ms // 2

    def _patience_due_ms(self) -> int | None:
        """The deadline of slots and sources. Commits and records have none."""
        return self._deadline_ms if self._step is Step.WAITING else None

    def _end_early(self, job: Job) -> transitions.Next:
        """Ends the job for a stop that needs no attempt; STAY: there is no such stop."""
        if job.stop is None or job.stop.needs_attempt or not job.restored_own:
            return transitions.STAY
        return transitions.ToEndingEarly("no attempt of the job was running")

    def _is_decided(self, epoch: int) -> bool:
        decided = self._decided is not None and epoch == self._decided.manifest.epoch
        # WAITING: the answer may be to the Commit of an earlier attempt, for the same epoch
        return decided and self._step in {Step.WAITING, Step.COMMIT} and not self._lost

    def _on_host(self, job: Job, opened: events.ConnectorHostOpened) -> None:
        job.identify_splits(opened.splits)
        job.add_splits(opened.splits)
        job.discovery_ms, job.final_sources = dict(opened.intervals), opened.final
        job.begin_output(opened.begins)
        job.formats = opened.formats
        self._host = job.hosted = True

    def _on_commit(self, job: Job, lost: tuple[CommittableDocument, ...]) -> None:
        if lost:
            self._lost = lost
            self._reading = job.read_journal()
        else:
            self._close(job)

    def _on_read_again(self, job: Job, read: events.JournalRead, now_ms: int) -> transitions.Next:
        """Compares the journal with the first read. If no other coordinator has continued the job, the output is
        lost."""
        assert self._decided is not None and self._read is not None, "something decided was lost"
        # another coordinator that has continued the job has decided about this output already: this one is replaced
        if _marks(read) != _marks(self._read):
            return transitions.ToSuspended("another coordinator has gone on with this job")
        manifest, lost, self._lost = self._decided.manifest, self._lost, ()
        if not all_lost(manifest, lost):
            return after_failure(job, mixed_loss(manifest, lost, self._before), now_ms)
        job.note(output_lost(manifest.epoch, lost), f"the job goes on from {_named(self._before)}")
        job.go_back(self._before)
        asked, self._step = self._stopped is None, Step.WAITING
        self._decided = self._stopped = self._unfinished = None
        self._wait(job, now_ms)
        if not asked:
            job.do(RequestSlots(job.attempt + 1, job.facts.slots))
        return self._next(job, now_ms)

    def _on_journal(self, job: Job, read: events.JournalRead, now_ms: int) -> transitions.Next:
        self._read = read
        job.take_journal(read, now_ms)
        if read.finished is not None and not job.begins_anew:
            return recorded_end(read.finished)
        # Decided output is committed first. Only then is the attempt's record written, after which open transactions
        # are fenced: in another order the fence would abort decided output.
        self._decided, self._stopped, self._unfinished = read.uncommitted, _stopped(read), read.unfinished
        self._before = read.before
        if self._stopped is None and not isinstance(early := self._end_early(job), transitions.Stay):
            return early
        if self._decided is None and self._stopped is not None and not job.open_names:
            return self._end_stop(job, self._stopped)
        job.message = "opening its sources and sinks"
        origin = job.config.origin
        if origin is not None and not job.splits:
            # foreign: the origin's positions are kept, but its stop positions are those of the other job
            known, accepted = dict(origin.splits), job.config.accepted_topics
            job.do(OpenHost(known, foreign=True, accepted=accepted, formats=job.formats))
        else:
            # accepted once, by the first attempt: one that replaces the accepted topic later is refused again
            accepted = job.config.accepted_topics if job.begins_anew else ()
            job.do(OpenHost(dict(job.splits), accepted=accepted, formats=job.formats))
        if self._stopped is None:
            self._wait(job, now_ms)
            job.do(RequestSlots(job.attempt + 1, job.facts.slots))
        return transitions.STAY

    def _wait(self, job: Job, now_ms: int) -> None:
        self._deadline_ms = now_ms + job.config.slots_timeout_ms
        self._name_wait(job)

    def _name_wait(self, job: Job) -> None:
        """Sets the message. Without a host the job waits for the host, even if slots are missing, too."""
        if self._host and self._decided is None and self._stopped is None and self._workers is None:
            job.message = f"waiting for {plural(job.facts.slots, 'slot')}"

    def _next(self, job: Job, now_ms: int) -> transitions.Next:
        """Begins the next step, if everything that it needs is there."""
        if self._step is not Step.WAITING or not self._host:
            return transitions.STAY
        if self._decided is not None:
            if self._decided.manifest.committables:
                self._step = Step.COMMIT
                job.message = f"committing epoch {self._decided.manifest.epoch}"
                job.do(Commit(self._decided.manifest.epoch, self._decided.manifest.committables))
            else:
                self._close(job)
        elif self._stopped is not None:
            return self._end_stop(job, self._stopped)
        elif self._workers is not None:
            self._record_attempt(job)
        return transitions.STAY

    def _close(self, job: Job) -> None:
        assert self._decided is not None, "an epoch is to be closed"
        self._step, self._ticket = Step.COMMITTED_RECORD, job.ticket()
        job.do(WriteCommitted(self._ticket, self._decided.manifest.epoch))

    def _record_attempt(self, job: Job) -> None:
        saved = self._unfinished
        # a coordinator may have died between the epoch's record and the savepoint's manifest: all files of the
        # savepoint are complete then, and only the manifest is missing
        if saved is not None and saved.savepoint is not None:
            job.do(WriteSavepoint(savepoint_of(saved.manifest, saved.savepoint_states), saved.savepoint))
        self._step, self._ticket = Step.ATTEMPT_RECORD, job.ticket()
        own = job.restored if job.restored_own else None
        job.do(
            WriteAttempt(
                self._ticket,
                job.attempt + 1,
                None if own is None else own.epoch,
                job.config.savepoint if own is None else None,
                job.parallelism,
                job.facts.plan_hash,
                dict(job.splits),
                job.config.names(job.parallelism, job.attempt + 1),
                dict(job.output),
                job.formats,
            )
        )

    def _on_record(self, job: Job, now_ms: int) -> transitions.Next:
        match self._step:
            case Step.COMMITTED_RECORD:
                return self._on_committed_record(job, now_ms)
            case Step.ATTEMPT_RECORD:
                return self._on_attempt_record(job)
            case Step.WAITING | Step.COMMIT | Step.FENCE:
                return transitions.STAY
            case _:
                assert_never(self._step)

    def _on_committed_record(self, job: Job, now_ms: int) -> transitions.Next:
        self._decided = None
        if self._stopped is not None:
            return self._end_stop(job, self._stopped)
        self._step = Step.WAITING
        self._wait(job, now_ms)
        return self._next(job, now_ms)

    def _on_attempt_record(self, job: Job) -> transitions.Next:
        assert self._workers is not None, "an attempt is recorded when its slots are there"
        job.attempt += 1
        job.names = dict(job.config.names(job.parallelism, job.attempt))
        # no earlier attempt of this job has left a transaction open
        if not job.open_names:
            return transitions.ToDeploying()
        self._step = Step.FENCE
        job.message = "ending the transactions of earlier attempts"
        job.do(Fence(job.attempt, dict(job.open_names)))
        return transitions.STAY

    def _end_stop(self, job: Job, stopped: CheckpointRecord) -> transitions.Next:
        self._end = StopEnd(stopped)
        return self._end.enter(job)

    def _too_few(self, job: Job) -> Failure:
        waited_s = job.config.slots_timeout_ms // 1000
        if self._workers is not None:
            return Failure(f"sources and sinks did not open within {waited_s} s", Domain.EXTERNAL, retry=True)
        return Failure(
            f"{plural(job.facts.slots, 'slot')} that the job needs did not become free within {waited_s} s",
            Domain.EXTERNAL,
            retry=True,
            remedy="start more workers, end other jobs, or lower the parallelism",
        )


def _named(before: Manifest | None) -> str:
    return "where it began" if before is None else f"checkpoint {before.epoch}"


def _marks(read: events.JournalRead) -> tuple[object, ...]:
    """Returns the facts of which at least one changes if another coordinator continues the job: by a commit, a new
    attempt, a stop or an end."""
    return read.attempt, read.epoch, read.uncommitted, read.stopping, read.finished


def _stopped(read: events.JournalRead) -> CheckpointRecord | None:
    """Returns the complete epoch of the stop; None: there is none. A stop with drain needs a drained epoch, so an epoch
    that was in flight before the stop does not count."""
    drains = read.stopping is not None and read.stopping.drain
    return None if drains and read.stopped is not None and not read.stopped.manifest.drained else read.stopped
