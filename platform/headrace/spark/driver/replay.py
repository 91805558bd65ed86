"""The driver of a replay on Spark: one bounded run of a pipeline, from its journal's first record to its last.

`driver_machine` decides the order of the steps, and the behaviour of a driver that finds records of another one. Before
the `checkpoint` record no row is visible in a sink, so a replay that failed before it starts from the beginning, and
resolves its positions again.

A replay that does not publish opens no sink, and leaves its staged rows for the caller to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.paths import parted
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.unique_names import unique_part
from headrace.core.clock import Clock
from headrace.core.errors import ExternalError, UserError
from headrace.core.source_state import AppliedFloor, SourceState
from headrace.execution.connector_messages import OpenRequest
from headrace.execution.connectors import JobConnectors
from headrace.execution.format_preparation import prepare_formats
from headrace.execution.planning import JobPlans, plan_pipeline
from headrace.plan.physical import PhysicalPlan
from headrace.plan.totals import row_totals
from headrace.spark.driver.driver_setup import DriverWish, computation_of, config_of, publication_of
from headrace.spark.driver.driver_shell import DriverParts, drive
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.manifest import share_of
from headrace.spark.driver.publication import Say
from headrace.spark.driver.unpublished import remove_abandoned
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.epoch import Splits, Work
from headrace.spark.task.order import StagedShare


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWish(DriverWish):
    """The options of a replay.

    publish    result rows are published to the sinks; False: they stay staged
    open_end   the end of the input closes no window, even without a savepoint
    splits     the splits to read, if they were resolved before (`resolve_splits`); None: the replay resolves them
    end        the savepoint at whose positions the sources end
    """

    publish: bool = True
    open_end: bool = False
    splits: Splits | None = None
    end: Manifest | None = None


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay. staged: its result rows in the job's folder `storage`, if they were not published."""

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

    def run(self) -> ReplayOutcome:
        """Runs to the end; if an earlier driver has decided the epoch, only publishes it. Raises UserError,
        ExternalError."""
        self._remove_abandoned()
        ended = drive(self._config(), self._parts(), self._say)
        assert ended.newest is not None, "a replay ends with its checkpoint"
        return self._outcome(ended.newest)

    def _config(self) -> DriverConfig:
        config = config_of(self._wish, self._plans, bounded=True)
        return replace(config, publish=self._wish.publish, open_end=self._wish.open_end)

    def _parts(self) -> DriverParts:
        wish, plans, exchange, clock = self._wish, self._plans, self._exchange, self._clock
        return DriverParts(
            store=open_store(wish.storage),
            writer=unique_part(),
            sources=ReplaySources(plans, wish),
            engine=computation_of(wish, plans, exchange, clock, say=self._say, publish=wish.publish),
            publishing=publication_of(wish, plans, exchange, clock, say=self._say),
            clock=clock,
            prepare=lambda known: prepare_formats(self._plan, known, sinks=wish.publish),
        )

    def _remove_abandoned(self) -> None:
        """Deletes folders of killed unpublished runs. A failure is only reported, because this run does not depend on
        it.
        """
        storage, _ = parted(self._wish.storage)
        try:
            removed = remove_abandoned(storage, self._plan.pipeline, self._clock.now_ms())
        except ExternalError as error:
            self._say(f"folders of killed runs in {storage} could not be deleted: {error.message}")
            return
        if removed:
            self._say(f"removed what {removed} killed {'run' if removed == 1 else 'runs'} had left in {storage}")

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
            open_store(self._wish.storage).url,
            staged,
        )


@dataclass(frozen=True, slots=True)
class ReplaySources:
    """The `Sources` of a replay: one range, resolved at its beginning."""

    plans: JobPlans
    wish: ReplayWish

    def resolve(self, known: Splits) -> Splits:
        """Returns the splits of the wish, or else resolves them now."""
        wish = self.wish
        if wish.splits is not None:
            return wish.splits
        found = resolve_splits(
            OpenRequest(
                job=wish.job,
                pipeline=self.plans.file_form(wish.parallelism),
                known=dict(known),
                foreign=True,
                sinks=wish.publish,
                accepted=wish.accepted_topics,
            )
        )
        require_same_logs(found, wish.end)
        return found

    def discover(self, splits: Splits, states: Mapping[str, SourceState]) -> Work | None:
        """Returns the whole range."""
        return Work(splits, splits, states, frozenset(splits))


def resolve_splits(request: OpenRequest) -> Splits:
    """Returns source -> its splits, with start and stop. Raises UserError, ExternalError."""
    connectors, plan = JobConnectors(), plan_pipeline(request.pipeline)
    try:
        found = connectors.open(
            plan,
            request.job,
            known=request.known,
            foreign=request.foreign,
            sinks=request.sinks,
            accepted=request.accepted,
        )
    finally:
        connectors.close()
    return {source: each.splits for source, each in found.items()}


def require_same_logs(splits: Splits, end: Manifest | None) -> None:
    """Raises UserError if a split has another log than the savepoint at whose positions it ends."""
    for source, found in splits.items():
        ends = {(each.topic, each.partition): each.identity for each in end.splits.get(source, ())} if end else {}
        for split in found:
            if split.identity and ends.get((split.topic, split.partition), "") not in ("", split.identity):
                raise UserError(
                    f"source {source!r} cannot end at the savepoint's positions: topic {split.topic} is another one "
                    "than it was then, by its id or its cluster",
                    remedy="its positions mean nothing there: end at latest, at a time or at offsets",
                )
