"""The common part of RUNNING, STOPPING and RESCALING: an attempt whose slots run, and its epochs.

begin ─> TriggerEpoch to all ─> every slot acked ─> [Describe] ─> `checkpoint` record ─> [Commit] ─> `committed` record
      ─> EpochCompleted to all, old checkpoints pruned ─> [savepoint's manifest] ─> `after`

If output of an epoch expires before the epoch's record is written, the attempt fails, and no row is lost: the next
attempt reads the rows again. If output is found to be lost after the record, the next attempt decides between the
checkpoint before it and the end of the job (`scheduling`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from headrace.checkpoint.manifest import CommittableDocument, Manifest, StateHandle
from headrace.coordinator.job import events
from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.effects import (
    Answer,
    Commit,
    Describe,
    Prune,
    SendAll,
    Sweep,
    WriteCheckpoint,
    WriteCommitted,
    WriteSavepoint,
)
from headrace.coordinator.job.job import Job
from headrace.coordinator.job.job_state import JobState
from headrace.coordinator.job.states.shared.any_event import after_failure, on_any
from headrace.coordinator.job.states.shared.lost_output import output_lost
from headrace.coordinator.job.states.transitions import STAY, Next, Stay
from headrace.core.errors import Domain
from headrace.core.source_state import SourceState, merged
from headrace.execution.epochs import Pending, Purpose, Stage
from headrace.execution.manifests import savepoint_of, total_counters, with_output, with_successors
from headrace.rpc.messages import EpochAborted, EpochCompleted, Failure, Renamed, TriggerEpoch


class Live:
    """Base of the states of a deployed attempt. Subclasses define which epoch begins next (`advance`) and what follows
    an epoch (`after`).
    """

    name: ClassVar[JobState]

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self._ticket = 0

    @abstractmethod
    def enter(self, job: Job, now_ms: int) -> Next:
        """Called when the state begins."""

    @abstractmethod
    def advance(self, job: Job, now_ms: int) -> Next:
        """Begins an epoch if one is due. Called after every event."""

    @abstractmethod
    def after(self, job: Job, pending: Pending, now_ms: int) -> Next:
        """Handles a finished epoch."""

    def on_own(self, job: Job, event: events.Event, now_ms: int) -> Next | None:
        """Handles the events of this state only; returns None for all others."""
        return None

    def due_ms(self, job: Job) -> int | None:
        """The time at which an epoch's timeout, a discovery or an alarm is due.

        A Tick at that time must change the state such that this time moves on, or the driver ticks in a loop.
        """
        return self.attempt.due_ms(job, periodic=False)

    def on(self, job: Job, event: events.Event, now_ms: int) -> Next:
        """Handles the event, then calls `advance`."""
        following = self.on_own(job, event, now_ms)
        if following is None:
            following = self._on_live(job, event, now_ms)
        if not isinstance(following, Stay):
            return following
        self.attempt.watch_commits(job, now_ms)
        return self.advance(job, now_ms)

    def _on_live(self, job: Job, event: events.Event, now_ms: int) -> Next:
        match event:
            case events.SlotInputEnded(index):
                self.attempt.ended.add(index)
                return STAY
            case events.SlotReported():
                self.attempt.take_report(job, event)
                return STAY
            case events.SplitsFound(source, splits):
                self.attempt.assign_found(job, source, splits)
                return STAY
            case events.SlotFailed(_, failure) | events.ConnectorHostFailed(failure) | events.JournalFailed(failure):
                return self.fail(job, failure, now_ms)
            case events.Tick():
                return self._on_tick(job, now_ms)
            case _:
                return self._on_epoch(job, event, now_ms)

    def _on_epoch(self, job: Job, event: events.Event, now_ms: int) -> Next:
        epochs = self.attempt.epochs
        match event:
            case events.SlotAcked(index, epoch, documents):
                # None: other slots have not acknowledged yet, or the epoch was aborted before this one arrived
                pending = epochs.ack(index, epoch, documents)
                return STAY if pending is None else self._on_acked(job, pending, now_ms)
            case events.Described() | events.DescribeFailed():
                return self._on_described(job, event, now_ms)
            case events.RecordWritten(ticket) if ticket == self._ticket:
                # other tickets belong to a state before this one, such as the `stopping` record
                return self._on_record(job, now_ms)
            case events.Committed(epoch, lost):
                # not COMMITTING: the answer to a Commit of an earlier attempt, whose epoch is committed
                if (pending := epochs.in_stage(Stage.COMMITTING, epoch)) is None:
                    return STAY
                if lost:
                    return self.fail(job, output_lost(epoch, lost), now_ms)
                self._close(job, pending)
                return STAY
            case events.CommitFailed(epoch, failure):
                # not COMMITTING: from a Commit of an earlier attempt; it was repeated since, and its epoch is committed
                return STAY if epochs.in_stage(Stage.COMMITTING, epoch) is None else self.fail(job, failure, now_ms)
            case events.SlotDeclined(_, epoch, failure):
                # None: late, the epoch was aborted meanwhile
                collecting = epochs.in_stage(Stage.COLLECTING, epoch)
                return STAY if collecting is None else self._give_up(job, failure, now_ms)
            case _:
                return self._on_other(job, event, now_ms)

    def _on_other(self, job: Job, event: events.Event, now_ms: int) -> Next:
        match event:
            case events.SavepointWritten(epoch):
                return STAY if self.attempt.epochs.in_stage(Stage.SAVING, epoch) is None else self._done(job, now_ms)
            case events.SavepointFailed(epoch, failure):
                return self._on_savepoint_failed(job, epoch, failure, now_ms)
            case _:
                pass
        following = on_any(self.name, job, event, now_ms)
        if not isinstance(following, Stay):
            text = f"job {job.config.job} is {following.name.value}"
            self.drop_savepoints(job, Failure(text, Domain.EXTERNAL, retry=True))
        return following

    def drop_savepoints(self, job: Job, failure: Failure) -> None:
        """Fails the requests that wait for savepoints of this attempt, which is over."""
        pending = self.attempt.epochs.pending
        if pending is not None and pending.request is not None:
            job.do(Answer(pending.request, failure=failure))

    def fail(self, job: Job, failure: Failure, now_ms: int) -> Next:
        """Ends the attempt."""
        self.drop_savepoints(job, failure)
        return after_failure(job, failure, now_ms)

    def _on_tick(self, job: Job, now_ms: int) -> Next:
        self.attempt.discover_splits(job, now_ms)
        if not self.attempt.epochs.timed_out(now_ms):
            return STAY
        pending = self.attempt.epochs.pending
        assert pending is not None, "what timed out is in flight"
        late = ", ".join(str(index) for index in sorted(pending.waiting))
        seconds = job.config.checkpoint.timeout_ms / 1000
        slots = "slot" if len(pending.waiting) == 1 else "slots"
        who = f"{slots} {late} did not answer" if late else "its sinks' transactions could not be looked at"
        text = f"checkpoint {pending.epoch} was not complete after {seconds:g} s: {who}"
        return self._give_up(job, Failure(text, Domain.EXTERNAL, retry=True), now_ms)

    # ---- an epoch, from its barrier to its end -------------------------------------------------------------------

    def begin(
        self, job: Job, purpose: Purpose, now_ms: int, *, folder: str | None = None, request: str | None = None
    ) -> None:
        """Triggers the next epoch. After the epoch of a stop or a rescale sources send nothing more."""
        last = purpose in (Purpose.STOP, Purpose.RESCALE)
        drain = purpose is Purpose.STOP and job.stop is not None and job.stop.drain
        pending = self.attempt.epochs.begin(purpose, now_ms, folder=folder or "", request=request, drain=drain)
        # read before the barrier is sent: input that ends after it belongs to the next epoch
        pending.final = self.attempt.input_ended
        job.epoch = pending.epoch
        job.do(SendAll(TriggerEpoch(pending.epoch, pending.folder, stop=last, drain=drain)))

    def _on_acked(self, job: Job, pending: Pending, now_ms: int) -> Next:
        if not pending.committables:
            return self._record(job, pending, (), now_ms)
        pending.stage = Stage.DESCRIBING
        job.do(Describe(pending.epoch, pending.committables))
        return STAY

    def _on_described(self, job: Job, event: events.Described | events.DescribeFailed, now_ms: int) -> Next:
        pending = self.attempt.epochs.in_stage(Stage.DESCRIBING, event.epoch)
        if pending is None:
            return STAY
        if isinstance(event, events.DescribeFailed):
            # prepared output that cannot be committed any more is lost for the attempt: nothing is decided, so the rows
            # are read again
            return self.fail(job, event.failure, now_ms)
        return self._record(job, pending, event.committables, now_ms)

    def _record(self, job: Job, pending: Pending, committables: tuple[CommittableDocument, ...], now_ms: int) -> Next:
        pending.manifest = manifest_of(job, pending, now_ms, committables)
        if vanished := vanished_splits(job, pending.manifest):
            # nothing is decided yet: a failed attempt costs a restart, this record would cost rows that are read twice
            text = f"checkpoint {pending.epoch} lacks the positions of {', '.join(vanished)}"
            return self.fail(job, Failure(text, Domain.INTERNAL, retry=True), now_ms)
        pending.stage = Stage.RECORDING
        self._ticket = job.ticket()
        states = savepoint_states(pending)
        took_ms = now_ms - pending.started_ms
        job.do(WriteCheckpoint(self._ticket, pending.manifest, pending.folder or None, states, took_ms))
        return STAY

    def _on_record(self, job: Job, now_ms: int) -> Next:
        epochs = self.attempt.epochs
        # from here on the epoch is decided: every recovery commits it
        if (pending := epochs.in_stage(Stage.RECORDING)) is not None:
            assert pending.manifest is not None, "a recorded epoch has a manifest"
            job.restored, job.restored_own = pending.manifest, True
            job.output, job.names = dict(pending.manifest.output), dict(pending.manifest.transactions)
            pending.stage = Stage.COMMITTING
            if pending.manifest.committables:
                job.do(Commit(pending.epoch, pending.manifest.committables))
            else:
                self._close(job, pending)
            return STAY
        if (pending := epochs.in_stage(Stage.CLOSING)) is not None:
            return self._on_closed(job, pending, now_ms)
        return STAY

    def _close(self, job: Job, pending: Pending) -> None:
        pending.stage = Stage.CLOSING
        self._ticket = job.ticket()
        job.do(WriteCommitted(self._ticket, pending.epoch))

    def _on_closed(self, job: Job, pending: Pending, now_ms: int) -> Next:
        assert pending.manifest is not None, "a committed epoch has a manifest"
        # only a committed epoch proves that the job makes progress
        job.strategy.on_stable(now_ms)
        job.repeated.on_checkpoint(job.positions, now_ms)
        self.attempt.committed(job, now_ms)
        renamed = tuple(Renamed(each.name, each.successor) for each in pending.manifest.committables if each.successor)
        job.do(SendAll(EpochCompleted(pending.epoch, renamed)), Prune(job.config.checkpoint.retained))
        if self.attempt.sweeps(now_ms):
            # a writer of an earlier attempt may begin a transaction after the fence, which would block readers until it
            # expires
            job.do(Sweep(job.attempt))
        if not pending.folder:
            return self._done(job, now_ms)
        pending.stage = Stage.SAVING
        job.do(WriteSavepoint(savepoint_of(pending.manifest, savepoint_states(pending)), pending.folder))
        return STAY

    def _done(self, job: Job, now_ms: int) -> Next:
        pending = self.attempt.epochs.done(now_ms)
        if pending.request is not None:
            job.do(Answer(pending.request, path=pending.folder or None))
        return self.after(job, pending, now_ms)

    def _on_savepoint_failed(self, job: Job, epoch: int, failure: Failure, now_ms: int) -> Next:
        pending = self.attempt.epochs.in_stage(Stage.SAVING, epoch)
        if pending is None:
            return STAY
        # after a stop the savepoint is all that the user has of the job's state: without it the stop has failed
        if pending.purpose is not Purpose.SAVEPOINT:
            return self.fail(job, failure, now_ms)
        self.attempt.epochs.done(now_ms)
        if pending.request is not None:
            job.do(Answer(pending.request, failure=failure))
        return STAY

    def _give_up(self, job: Job, failure: Failure, now_ms: int) -> Next:
        pending, too_often = self.attempt.epochs.give_up(now_ms)
        job.do(SendAll(EpochAborted(pending.epoch)))
        # the last epoch of an attempt failed, or one periodic epoch more than `tolerable_failures`
        if too_often:
            return self.fail(job, failure, now_ms)
        job.note(failure, "the job goes on without this checkpoint")
        if pending.request is not None:
            job.do(Answer(pending.request, failure=failure))
        return STAY


def manifest_of(
    job: Job, pending: Pending, now_ms: int, committables: tuple[CommittableDocument, ...] = ()
) -> Manifest:
    """Merges the acknowledgements of an epoch into its manifest, which does not depend on their order.

    committables: those of the epoch, as their committers described them
    """
    documents = sorted(pending.documents, key=lambda document: (document.task, document.subtask))
    facts = job.facts
    parts: dict[str, list[SourceState]] = {source: [] for source in facts.sources}
    for document in documents:
        for source, state in document.sources.items():
            parts[source].append(state)
    return Manifest(
        kind="checkpoint",
        job=job.config.job,
        pipeline=job.config.name,
        epoch=pending.epoch,
        attempt=job.attempt,
        created_at_ms=now_ms + job.config.wall_offset_ms,
        version=job.config.version,
        plan_hash=facts.plan_hash,
        max_parallelism=facts.max_parallelism,
        parallelism=dict(facts.parallelism),
        nodes=dict(facts.nodes),
        states=tuple(handle for document in documents for handle in document.states),
        sources={source: merged(states) for source, states in parts.items()},
        splits=dict(job.splits),
        counters=total_counters([job.counted, *(document.counters for document in documents)]),
        committables=committables,
        transactions=with_successors(job.names, committables),
        output=with_output(job.output, committables),
        definitions=dict(facts.definitions),
        drained=pending.drain or (pending.final and bool(facts.timed) and not job.config.keeps_time_open),
        final=pending.final,
        formats=job.formats,
    )


def vanished_splits(job: Job, manifest: Manifest) -> list[str]:
    """Returns the job's splits whose positions the checkpoint before this one has, and this one lacks.

    There are none, unless a slot acknowledged without its splits: it did not receive them. Their rows would be read
    again after a restore, from the beginning.
    """
    if job.restored is None:
        return []
    vanished = []
    for source, state in manifest.sources.items():
        before = job.restored.sources.get(source, SourceState())
        read = {(split.topic, split.partition) for split in before.splits}
        assigned = {(split.topic, split.partition) for split in job.splits.get(source, ())}
        kept = {(split.topic, split.partition) for split in state.splits}
        vanished += [f"{source}: {topic}/{partition}" for topic, partition in sorted((read & assigned) - kept)]
    return vanished


def savepoint_states(pending: Pending) -> tuple[StateHandle, ...]:
    """Returns the handles of the epoch's files in its savepoint folder."""
    documents = sorted(pending.documents, key=lambda document: (document.task, document.subtask))
    return tuple(handle for document in documents for handle in document.savepoint)
