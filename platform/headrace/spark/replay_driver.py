"""A replay, as its driver sees it: one bounded run of a pipeline on Spark, from its journal's first record to its last.

    begin ─> attempt record ─> levels on Spark ─> `checkpoint` record: the decision ─> publish ─> `committed`
                  ^                                     │                                            │
                  └── killed before the decision        └── killed after it: goes on here            v
                      (nothing is visible): anew                                savepoint's manifest ─> `finished`

The driver alone writes the job's journal; one that finds a record of somebody else there has been replaced and stops.
What is undecided has no effect outside, so a try that came to nothing is begun anew, with positions resolved anew.

A replay that does not publish opens no sink, and leaves its staged rows where they are for whoever reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.checkpoint.manifest import SplitDocument, StateHandle
from headrace.checkpoint.paths import MANIFEST, STAGED, parted
from headrace.checkpoint.records import AttemptRecord, CheckpointRecord, CommittedRecord, FinishedRecord
from headrace.checkpoint.savepoint import write_savepoint
from headrace.checkpoint.store import ObjectStore, open_folder, open_store
from headrace.coordinator.connector_host_messages import OpenRequest
from headrace.coordinator.hosted_job import HostedJob
from headrace.coordinator.manifests import savepoint_of
from headrace.coordinator.origin import Origin
from headrace.coordinator.planning import JobPlans
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError
from headrace.core.source_state import AppliedFloor
from headrace.plan.physical import PhysicalPlan
from headrace.plan.totals import row_totals
from headrace.spark.abandoned import remove_abandoned
from headrace.spark.computation import Computation, Epoch
from headrace.spark.cut import share_of
from headrace.spark.driver_journal import DriverJournal
from headrace.spark.exchange import Exchange
from headrace.spark.leftovers import new_savepoint, remove_files, remove_savepoints
from headrace.spark.publication import Publication, Say
from headrace.spark.task_report import StagedShare

EPOCH = 1
"""A replay is one epoch."""

Splits = Mapping[str, tuple[SplitDocument, ...]]
"""Source -> its splits, resolved."""


@dataclass(frozen=True, slots=True)
class ReplayWish:
    """How a replay is wanted.

    job, storage   its id, and the URL of its folder in checkpoint storage
    parallelism    of nodes that set none themselves
    savepoint      folder for a savepoint at the cut; final: time goes to its end there too
    origin         savepoint or checkpoint to start from
    python_path    import path entries for the user's functions
    publish        whether result rows reach the sinks; else they stay staged
    open_end       the end closes no window, though no savepoint is asked for
    allow_repeated  results are published though a sink may have forgotten what of them it has
    splits         what to read, as resolved before (`resolve_splits`); None: resolved when it runs
    """

    job: str
    storage: str
    parallelism: int
    savepoint: str | None = None
    final: bool = False
    origin: Origin | None = None
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = ()
    publish: bool = True
    open_end: bool = False
    allow_repeated: bool = False
    splits: Splits | None = None


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """How a replay ended. staged: its result rows in the job's folder `storage`, where they were not published."""

    job: str
    rows_in: int
    rows_out: int
    late: int
    bad: int
    savepoint: str | None
    floors: tuple[AppliedFloor, ...]
    counters: Mapping[str, Mapping[str, int]]
    storage: str
    staged: tuple[StagedShare, ...]


class Replay:
    """Runs one replay. Used by one thread."""

    def __init__(
        self, plans: JobPlans, wish: ReplayWish, exchange: Exchange, clock: Clock, *, say: Say | None = None
    ) -> None:
        self._plans = plans
        self._wish = wish
        self._exchange = exchange
        self._clock = clock
        self._say: Say = say or (lambda _: None)
        self._plan: PhysicalPlan = plans.plan(wish.parallelism)
        self._store: ObjectStore = open_store(wish.storage)
        self._journal = DriverJournal(self._store, wish.job)

    def run(self) -> ReplayOutcome:
        """Runs to the end, or finishes what an earlier driver has decided. Raises UserError, ExternalError."""
        self._remove_abandoned()
        journal = self._journal.load()
        decided = journal.checkpoints[-1] if journal.checkpoints else None
        if decided is None:
            decided = self._computed(attempt=journal.attempt + 1)
        elif journal.finished is None:
            self._say("an earlier run has computed the results: they are published now")
        if journal.finished is None:
            if self._wish.publish:
                self._publish(decided)
            self._finish(decided)
        return self._outcome(decided)

    # ---- computing -----------------------------------------------------------------------------------------------

    def _computed(self, attempt: int) -> CheckpointRecord:
        """Everything up to the decision."""
        wish = self._wish
        splits = self._opened()
        facts = self._plans.facts(wish.parallelism)
        self._journal.append(
            AttemptRecord(
                at_ms=self._clock.now_ms(),
                attempt=attempt,
                savepoint=None if wish.origin is None else wish.origin.url,
                parallelism=wish.parallelism,
                plan_hash=facts.plan_hash,
                splits=dict(splits),
            )
        )
        self._remove_leftovers(attempt)
        target = None
        if wish.savepoint is not None:
            target = new_savepoint(wish.savepoint, wish.job, EPOCH, attempt)
        computation = Computation(
            plans=self._plans,
            parallelism=wish.parallelism,
            job=wish.job,
            storage=wish.storage,
            exchange=self._exchange,
            clock=self._clock,
            say=self._say,
            floors=wish.floors,
            python_path=wish.python_path,
            publish=wish.publish,
        )
        before = None if wish.origin is None else wish.origin.manifest
        epoch = Epoch(EPOCH, attempt, splits, before=before, states=target, hand_over=self._hand_over)
        manifest, states = computation.run(epoch)
        record = CheckpointRecord(
            at_ms=self._clock.now_ms(), manifest=manifest, savepoint=target, savepoint_states=states
        )
        self._journal.append(record)
        return record

    @property
    def _hand_over(self) -> bool:
        return self._wish.open_end or (self._wish.savepoint is not None and not self._wish.final)

    def _opened(self) -> Splits:
        """Source -> its splits: sinks are looked at first, then positions are resolved."""
        wish = self._wish
        if wish.splits is not None:
            return wish.splits
        known = {} if wish.origin is None else wish.origin.manifest.splits
        return resolve_splits(
            OpenRequest(
                job=wish.job,
                pipeline=self._plans.file_form(wish.parallelism),
                known=known,
                foreign=True,
                sinks=wish.publish,
            )
        )

    def _remove_abandoned(self) -> None:
        """Folders of runs that published nothing and were killed: no matter of this run's, so it goes on regardless."""
        storage, _ = parted(self._wish.storage)
        try:
            removed = remove_abandoned(storage, self._plan.pipeline, self._clock.now_ms())
        except ExternalError as error:
            self._say(f"what killed runs have left in {storage} could not be removed: {error.message}")
            return
        if removed:
            self._say(f"removed what {removed} killed {'run' if removed == 1 else 'runs'} had left in {storage}")

    def _remove_leftovers(self, attempt: int) -> None:
        """What earlier tries made, which nobody decided on: since this one's record stands, nobody will."""
        remove_files(self._store, self._journal.journal, attempt, self._clock.now_ms())
        if self._wish.savepoint is not None:
            remove_savepoints(self._wish.savepoint, self._wish.job, attempt, ())

    # ---- publishing ----------------------------------------------------------------------------------------------

    def _publish(self, record: CheckpointRecord) -> None:
        """Makes the results visible, each row once; then the journal says so."""
        if any(isinstance(each, CommittedRecord) for each in self._journal.journal.records):
            return
        wish = self._wish
        Publication(
            self._plans,
            wish.parallelism,
            wish.storage,
            self._exchange,
            self._say,
            self._clock,
            allow_repeated=wish.allow_repeated,
        ).publish(record)
        self._journal.append(CommittedRecord(at_ms=self._clock.now_ms(), epoch=record.manifest.epoch))

    def _finish(self, record: CheckpointRecord) -> None:
        if record.savepoint is not None:
            write_savepoint(savepoint_of(record.manifest, record.savepoint_states), record.savepoint)
            _remove_strays(open_folder(record.savepoint), record.savepoint_states)
        if self._wish.publish:
            self._store.delete(self._store.list(STAGED))
        # of tasks that were killed while they wrote
        self._store.delete([each.path for each in self._store.leftovers()])
        self._journal.append(FinishedRecord(at_ms=self._clock.now_ms(), state="FINISHED", savepoint=record.savepoint))

    def _outcome(self, record: CheckpointRecord) -> ReplayOutcome:
        manifest = record.manifest
        before = {} if self._wish.origin is None else self._wish.origin.manifest.counters
        rows_in, rows_out, late, bad = (
            now - earlier
            for now, earlier in zip(
                row_totals(self._plan, manifest.counters), row_totals(self._plan, before), strict=True
            )
        )
        floors = tuple(floor for state in manifest.sources.values() for floor in state.applied)
        staged = () if self._wish.publish else tuple(share_of(item) for item in manifest.committables)
        return ReplayOutcome(
            manifest.job,
            rows_in,
            rows_out,
            late,
            bad,
            record.savepoint,
            floors,
            manifest.counters,
            self._store.url,
            staged,
        )


def _remove_strays(savepoint: ObjectStore, states: Sequence[StateHandle]) -> None:
    """Files in a savepoint that its manifest does not name: of tries of tasks that came to nothing."""
    named = {part.path for handle in states for part in handle.files} | {MANIFEST}
    savepoint.delete([path for path in savepoint.list("") if path not in named])
    savepoint.delete([each.path for each in savepoint.leftovers()])


def resolve_splits(request: OpenRequest) -> Splits:
    """Source -> its splits, with start and stop. Raises UserError, ExternalError."""
    hosted = HostedJob()
    try:
        found = hosted.open(request)
    finally:
        hosted.close()
    return {source: each.splits for source, each in found.items()}
