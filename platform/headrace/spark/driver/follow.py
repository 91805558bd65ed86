"""The driver of a followed pipeline (`replay --follow`) on Spark: one increment after the other, each one an epoch.

`driver_machine` decides the order, and the behaviour of a driver that is killed, replaced or asked to stop. A look at
the sources finds the rows since the newest checkpoint. Without new rows, and without an idle partition that moves,
there is no increment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.checkpoint.paths import unique_part
from headrace.checkpoint.stores.opening import open_store
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor, SourceState
from headrace.execution.planning import JobPlans
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.plan.totals import row_totals
from headrace.spark.driver.driver_setup import DriverWish, computation_of, config_of, publication_of
from headrace.spark.driver.driver_shell import DriverParts, Pause, drive
from headrace.spark.driver.follow_sources import FollowSources, Look, Place
from headrace.spark.driver.idle_splits import IdleSplits, SourceClock
from headrace.spark.driver.publication import Say
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.effects import End
from headrace.spark.driver_machine.epoch import Splits, Work
from headrace.spark.levels.exchange import Exchange

FAILURES_MAX = 10
"""Consecutive increments that may fail for transient external reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowWish(DriverWish):
    """How a pipeline is to be followed.

    interval_ms      between the starts of two increments, if the first one is over by then
    increments_max   ends after this number; None: goes on
    """

    interval_ms: int
    increments_max: int | None = None


@dataclass(frozen=True, slots=True)
class FollowOutcome:
    """The result of following. Rows are those of this driver's increments; epoch: the newest one, 0 if there is none.

    finished   the job is over: its sources ended, or it returned a savepoint; else the same command continues it
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
        """plans: of the pipeline with its sources up to now (`FollowSources`)."""
        self._plans = plans
        self._sources = sources
        self._wish = wish
        self._exchange = exchange
        self._clock = clock
        self._pause = pause
        self._say: Say = say or (lambda _: None)
        self._plan: PhysicalPlan = plans.plan(wish.parallelism)

    def run(self) -> FollowOutcome:
        """Follows until asked to stop, or until the sources end. Retries transient external failures from the journal,
        at most `FAILURES_MAX` in a row. Raises UserError, DataError, ExternalError.
        """
        return self._outcome(drive(self._config(), self._parts(), self._say))

    def _config(self) -> DriverConfig:
        return replace(
            config_of(self._wish, self._plans, bounded=False),
            retained=self._plans.model(self._wish.parallelism).checkpoint.retained,
            increments_max=self._wish.increments_max,
            failures_max=FAILURES_MAX,
        )

    def _parts(self) -> DriverParts:
        wish, plans, exchange, clock = self._wish, self._plans, self._exchange, self._clock
        return DriverParts(
            store=open_store(wish.storage),
            writer=unique_part(),
            sources=WatchedSources(wish.job, self._sources, IdleSplits(_clocks(self._plan)), clock),
            engine=computation_of(wish, plans, exchange, clock, say=self._say),
            publishing=publication_of(wish, plans, exchange, clock, say=self._say),
            clock=clock,
            pause=self._pause,
            interval_ms=wish.interval_ms,
        )

    def _outcome(self, ended: End) -> FollowOutcome:
        now = {} if ended.manifest is None else ended.manifest.counters
        before = {} if ended.begun_with is None else ended.begun_with.counters
        rows_in, rows_out, late, bad = (
            total - earlier
            for total, earlier in zip(row_totals(self._plan, now), row_totals(self._plan, before), strict=True)
        )
        states = {} if ended.manifest is None else ended.manifest.sources
        return FollowOutcome(
            job=self._wish.job,
            increments=ended.increments,
            epoch=ended.epoch,
            rows_in=rows_in,
            rows_out=rows_out,
            late=late,
            bad=bad,
            savepoint=None if ended.finished is None else ended.finished.savepoint,
            floors=tuple(floor for state in states.values() for floor in state.applied),
            finished=ended.finished is not None,
        )


@dataclass(frozen=True, slots=True)
class WatchedSources:
    """The `Sources` of a followed pipeline. idle: the activity of their partitions, as this driver has observed it."""

    job: str
    sources: FollowSources
    idle: IdleSplits
    clock: Clock

    def resolve(self, known: Splits) -> Splits:
        """Returns where the sources begin, and where they end, if they do."""
        return self.sources.resolve(self.job, dict(known))

    def look(self, splits: Splits, states: Mapping[str, SourceState]) -> Work | None:
        """Returns the work if there are new rows, idle partitions whose floors move, or the end of all sources."""
        look = self.sources.look(dict(splits))
        fresh, now_ms = look.fresh(states), self.clock.monotonic_ms()  # monotonic: somebody may set the wall clock
        self.idle.seen(_places(look), fresh, now_ms)
        work = Work(look.splits, look.ranges, self.idle.raised(states, now_ms, look.ended), look.ended)
        return work if fresh or work.sources != states or work.over else None


def _clocks(plan: PhysicalPlan) -> dict[str, SourceClock]:
    """Returns the sources with event time."""
    specs = [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    return {
        spec.node: SourceClock(spec.time.out_of_orderness_ms + 1, spec.time.idle_after_ms)
        for spec in specs
        if spec.time is not None
    }


def _places(look: Look) -> list[Place]:
    return [(source, split.topic, split.partition) for source, splits in look.splits.items() for split in splits]
