"""A pipeline that goes on live on Spark, as its driver sees it: increment after increment, each one an epoch.

    attempt record ─> publish what is decided and not committed
        ┌─> look: what is new since the newest checkpoint? nothing, and no idle partition moves: wait for the next look
        │   computation on Spark ─> `checkpoint` record: the decision ─> publish ─> `committed` ─> prune
        └── the interval since the last look is over
    asked to stop, with a savepoint ─> one more epoch, which reads nothing and writes all state ─> `finished`
    every source at its end         ─> the last increment closes the windows ─> `finished`

The driver alone writes the job's journal. Killed anywhere, the next one on the same journal does first what its newest
decision has left open, and goes on from there; what was not decided is computed anew. A driver that was replaced finds
out at its next record, before anything of it is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.checkpoint.manifest import Manifest, SplitDocument
from headrace.checkpoint.records import AttemptRecord, CheckpointRecord, CommittedRecord, FinishedRecord
from headrace.checkpoint.resolve import Resolution, resolve
from headrace.checkpoint.savepoint import located, write_savepoint
from headrace.checkpoint.store import ObjectStore, open_store
from headrace.checkpoint.usable import damaged_epochs
from headrace.coordinator.manifests import savepoint_of
from headrace.coordinator.origin import Origin
from headrace.coordinator.planning import JobPlans
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError
from headrace.core.source_state import AppliedFloor, SourceState
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.plan.totals import row_totals
from headrace.spark.computation import Computation, Epoch
from headrace.spark.driver_journal import DriverJournal
from headrace.spark.exchange import Exchange
from headrace.spark.follow_sources import FollowSources, Look, Place, Splits
from headrace.spark.idle_splits import IdleSplits, SourceClock
from headrace.spark.leftovers import new_savepoint, remove_files, remove_savepoints
from headrace.spark.publication import Publication, Say, staged_files

FAILURES_MAX = 10
"""Increments in a row that may fail for reasons outside that pass by themselves."""

Pause = Callable[[int], bool]
"""Waits for so many ms, or until somebody asks to stop; whether that is so."""


@dataclass(frozen=True, slots=True)
class FollowWish:
    """How a pipeline is to be followed.

    job, storage    its id, and the URL of its folder in checkpoint storage
    parallelism     of nodes that set none themselves
    interval_ms     between the beginnings of two increments, where one does not take longer
    increments_max  ends after so many; None: goes on
    savepoint       folder for a savepoint at the end; final: sources that come to their end close every window first
    origin          savepoint or checkpoint to start from, where the job has no checkpoint yet
    python_path     import path entries for the user's functions
    allow_repeated  results are published though a sink may have forgotten what of them it has
    """

    job: str
    storage: str
    parallelism: int
    interval_ms: int
    increments_max: int | None = None
    savepoint: str | None = None
    final: bool = False
    origin: Origin | None = None
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = ()
    allow_repeated: bool = False


@dataclass(frozen=True, slots=True)
class FollowOutcome:
    """How following ended. Rows are those of this driver's increments; epoch: the newest one, 0 where there is none.

    finished   the job is over: its sources came to their end, or a savepoint was handed out; else the same command
               goes on
    """

    job: str
    increments: int
    epoch: int
    rows_in: int
    rows_out: int
    late: int
    bad: int
    savepoint: str | None
    floors: tuple[AppliedFloor, ...]
    finished: bool


class Follow:
    """Follows one pipeline. Used by one thread."""

    def __init__(
        self,
        plans: JobPlans,
        sources: FollowSources,
        wish: FollowWish,
        exchange: Exchange,
        clock: Clock,
        *,
        pause: Pause,
        say: Say | None = None,
    ) -> None:
        """plans: of the pipeline up to now (`FollowSources`)."""
        self._wish = wish
        self._sources = sources
        self._clock = clock
        self._pause = pause
        self._say: Say = say or (lambda _: None)
        self._plans = plans
        self._plan: PhysicalPlan = plans.plan(wish.parallelism)
        self._retained = plans.model(wish.parallelism).checkpoint.retained
        self._store: ObjectStore = open_store(wish.storage)
        self._journal = DriverJournal(self._store, wish.job)
        self._publication = Publication(
            plans, wish.parallelism, wish.storage, exchange, self._say, clock, allow_repeated=wish.allow_repeated
        )
        self._computation = Computation(
            plans=plans,
            parallelism=wish.parallelism,
            job=wish.job,
            storage=wish.storage,
            exchange=exchange,
            clock=clock,
            say=self._say,
            floors=wish.floors,
            python_path=wish.python_path,
        )
        self._idle = IdleSplits(_clocks(self._plan))
        self._attempt = self._epoch = self._increments = 0
        self._splits: Splits = {}
        self._manifest: Manifest | None = None if wish.origin is None else wish.origin.manifest
        self._begun_with: Manifest | None = None
        self._finished: FinishedRecord | None = None

    def run(self) -> FollowOutcome:
        """Follows until asked to stop, or until the sources end. What passes by itself outside is tried again, from the
        journal on, so many times in a row. Raises UserError, DataError, ExternalError."""
        self._begin()
        self._begun_with = self._manifest
        asked, failures = False, 0
        while self._finished is None and not asked and self._increments != self._wish.increments_max:
            begun_ms = self._clock.monotonic_ms()
            try:
                if failures:
                    self._begin()
                if self._finished is None:
                    self._increments += self._increment()
                failures = 0
            except ExternalError as error:
                if not error.retry or failures == FAILURES_MAX:
                    raise
                failures += 1
                self._say(f"{error.message}; tried again soon ({failures} of {FAILURES_MAX})")
            if self._finished is None and self._increments != self._wish.increments_max:
                took_ms = self._clock.monotonic_ms() - begun_ms
                asked = self._pause(max(0, self._wish.interval_ms - took_ms))
        if self._finished is None and self._wish.savepoint is not None:
            if failures:
                self._begin()
            self._hand_out()
        return self._outcome()

    # ---- the beginning -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Takes the job over: from here on, every earlier driver of it is replaced."""
        journal = self._journal.load()
        found = resolve(journal, damaged_epochs(self._store, journal))
        self._attempt, self._epoch = found.next_attempt, found.epoch
        if found.restore is not None:
            self._manifest = located(found.restore, self._wish.storage)
        self._finished = found.finished
        if found.finished is not None:
            return
        self._splits = {source: tuple(splits) for source, splits in found.splits.items()}
        if not self._splits:
            known = {} if self._manifest is None else dict(self._manifest.splits)
            self._splits = self._sources.resolve(self._wish.job, known)
        self._append_attempt(found)
        self._remove_leftovers(found)
        self._settle(found)

    def _append_attempt(self, found: Resolution) -> None:
        origin = self._wish.origin
        self._journal.append(
            AttemptRecord(
                at_ms=self._clock.now_ms(),
                attempt=self._attempt,
                restored_epoch=None if found.restore is None else found.restore.epoch,
                savepoint=None if found.restore is not None or origin is None else origin.url,
                parallelism=self._wish.parallelism,
                plan_hash=self._plans.facts(self._wish.parallelism).plan_hash,
                splits=self._splits,
            )
        )

    def _settle(self, found: Resolution) -> None:
        """Does what the newest decision has left open."""
        newest = found.restore
        if newest is None:
            return
        if found.commit_first is not None and found.commit_first.manifest.epoch == newest.epoch:
            self._say(f"epoch {newest.epoch} was decided before: it is published now")
            self._commit(found.commit_first)
        record = found.unfinished
        if newest.final or (record is not None and record.manifest.epoch == newest.epoch):
            self._finish(record)

    def _remove_leftovers(self, found: Resolution) -> None:
        """Files of tries that came to nothing."""
        remove_files(self._store, self._journal.journal, self._attempt, self._clock.now_ms())
        if self._wish.savepoint is not None:
            decided = [] if found.unfinished is None else [found.unfinished.savepoint or ""]
            remove_savepoints(self._wish.savepoint, self._wish.job, self._attempt, decided)

    # ---- increments ----------------------------------------------------------------------------------------------

    def _increment(self) -> bool:
        """One look at the sources, and an epoch where there is something to do. Whether there was one."""
        look = self._sources.look(self._splits)
        states = {} if self._manifest is None else self._manifest.sources
        fresh, now_ms = look.fresh(states), self._clock.monotonic_ms()  # a wall clock may be set
        self._idle.seen(_places(look), fresh, now_ms)
        ended = look.ended
        over = ended == frozenset(look.splits)
        raised = self._idle.raised(states, now_ms, ended)
        if not fresh and raised == states and not over:
            return False
        self._splits = look.splits
        hand_over = not over or (self._wish.savepoint is not None and not self._wish.final)
        target = self._savepoint_target() if over and self._wish.savepoint is not None else None
        record = self._decided(
            Epoch(
                self._epoch + 1,
                self._attempt,
                look.ranges,
                before=self._manifest,
                splits=look.splits,
                sources=raised,
                states=target or self._wish.storage,
                deltas=target is None,
                hand_over=hand_over,
                closed=frozenset() if over else ended,
                last=over,
            ),
            target,
        )
        if over:
            self._finish(record)
        return True

    def _decided(self, epoch: Epoch, target: str | None) -> CheckpointRecord:
        """Computes an epoch, decides on it, and makes it visible."""
        begun_ms = self._clock.monotonic_ms()
        manifest, states = self._computation.run(epoch)
        record = CheckpointRecord(
            at_ms=self._clock.now_ms(),
            manifest=manifest,
            savepoint=target,
            savepoint_states=() if target is None else states,
            took_ms=self._clock.monotonic_ms() - begun_ms,
        )
        self._journal.append(record)
        self._epoch = manifest.epoch
        self._manifest = located(manifest, self._wish.storage)
        self._commit(record)
        return record

    def _commit(self, record: CheckpointRecord) -> None:
        manifest = record.manifest
        self._publication.publish(record)
        self._journal.append(CommittedRecord(at_ms=self._clock.now_ms(), epoch=manifest.epoch))
        self._store.delete(staged_files(manifest))
        self._journal.prune(self._retained)
        rows = sum(item.rows for item in manifest.committables)
        self._say(f"epoch {manifest.epoch}: {rows:,} rows out")

    # ---- the end -------------------------------------------------------------------------------------------------

    def _savepoint_target(self) -> str:
        assert self._wish.savepoint is not None, "a savepoint was asked for"
        return new_savepoint(self._wish.savepoint, self._wish.job, self._epoch + 1, self._attempt)

    def _hand_out(self) -> None:
        """A savepoint where the newest checkpoint stands: an epoch that reads nothing and writes all state."""
        target = self._savepoint_target()
        states = {} if self._manifest is None else self._manifest.sources
        record = self._decided(
            Epoch(
                self._epoch + 1,
                self._attempt,
                {source: _standing(splits, states.get(source)) for source, splits in self._splits.items()},
                before=self._manifest,
                splits=self._splits,
                states=target,
                hand_over=True,
                last=False,
            ),
            target,
        )
        self._finish(record)

    def _finish(self, record: CheckpointRecord | None) -> None:
        savepoint = None if record is None else record.savepoint
        if record is not None and savepoint is not None:
            write_savepoint(savepoint_of(record.manifest, record.savepoint_states), savepoint)
        self._finished = FinishedRecord(at_ms=self._clock.now_ms(), state="FINISHED", savepoint=savepoint)
        self._journal.append(self._finished)

    def _outcome(self) -> FollowOutcome:
        now = {} if self._manifest is None else self._manifest.counters
        before = {} if self._begun_with is None else self._begun_with.counters
        rows_in, rows_out, late, bad = (
            total - earlier
            for total, earlier in zip(row_totals(self._plan, now), row_totals(self._plan, before), strict=True)
        )
        states = {} if self._manifest is None else self._manifest.sources
        return FollowOutcome(
            job=self._wish.job,
            increments=self._increments,
            epoch=self._epoch,
            rows_in=rows_in,
            rows_out=rows_out,
            late=late,
            bad=bad,
            savepoint=None if self._finished is None else self._finished.savepoint,
            floors=tuple(floor for state in states.values() for floor in state.applied),
            finished=self._finished is not None,
        )


def _clocks(plan: PhysicalPlan) -> dict[str, SourceClock]:
    """Sources with event time."""
    specs = [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    return {
        spec.node: SourceClock(spec.time.out_of_orderness_ms + 1, spec.time.idle_after_ms)
        for spec in specs
        if spec.time is not None
    }


def _places(look: Look) -> list[Place]:
    return [(source, split.topic, split.partition) for source, splits in look.splits.items() for split in splits]


def _standing(splits: Sequence[SplitDocument], state: SourceState | None) -> tuple[SplitDocument, ...]:
    """The splits with nothing to read in them."""
    positions = {(each.topic, each.partition): each.position for each in (() if state is None else state.splits)}
    return tuple(
        split.model_copy(update={"stop": positions.get((split.topic, split.partition), split.start)})
        for split in splits
    )
