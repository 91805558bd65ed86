"""The driver of a followed pipeline (`replay --follow`) on Spark: one increment after the other, each one an epoch.

`driver_machine` decides the order of the steps, and the behaviour of a driver that is killed, replaced or asked to
stop. Before each increment the driver requests the sources' current ends (a discovery, `follow_sources`). There is no
increment without new rows, unless the watermark of an idle partition advances or all sources have ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.unique_names import unique_part
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor, SourceState, SplitState
from headrace.execution.format_preparation import prepare_formats
from headrace.execution.idle_times import relayed_heights
from headrace.execution.planning import JobPlans
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.plan.totals import row_totals
from headrace.spark.driver.driver_setup import DriverWish, computation_of, config_of, publication_of
from headrace.spark.driver.driver_shell import DriverParts, Pause, drive
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.follow_sources import Discovery, FollowSources, SplitKey
from headrace.spark.driver.publication import Say
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.effects import End
from headrace.spark.driver_machine.epoch import Splits, Work

FAILURES_MAX = 10
"""Most consecutive increments that may fail for transient external reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowWish(DriverWish):
    """The options for following a pipeline.

    interval_ms      time between the starts of two increments, if the first one is over by then
    increments_max   number of increments after which the driver ends; None: no limit
    """

    interval_ms: int
    increments_max: int | None = None


@dataclass(frozen=True, slots=True)
class FollowOutcome:
    """The result of following. Counts of rows are those of this driver's increments.

    epoch      the newest one, 0 if there is none
    finished   the job is over, because its sources ended or it returned a savepoint; else the same command continues it
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
        """plans: of the pipeline whose sources stop at their current ends (`FollowSources`)."""
        self._plans = plans
        self._sources = sources
        self._wish = wish
        self._exchange = exchange
        self._clock = clock
        self._pause = pause
        self._say: Say = say or (lambda _: None)
        self._plan: PhysicalPlan = plans.plan(wish.parallelism)

    def run(self) -> FollowOutcome:
        """Follows until a stop is requested, `increments_max` is reached, or the sources end. After a transient
        external failure it continues from the journal, for at most `FAILURES_MAX` failures in a row. Raises UserError,
        DataError, ExternalError.
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
            sources=WatchedSources(
                wish.job, self._sources, IdleSplits(_clocks(self._plan)), clock, wish.accepted_topics
            ),
            engine=computation_of(wish, plans, exchange, clock, say=self._say),
            publishing=publication_of(wish, plans, exchange, clock, say=self._say),
            clock=clock,
            pause=self._pause,
            interval_ms=wish.interval_ms,
            prepare=lambda known: prepare_formats(self._plan, known),
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
    """The `Sources` of a followed pipeline.

    idle       the time when this driver last found rows, by partition
    accepted   topics of the origin that may be other ones now
    """

    job: str
    sources: FollowSources
    idle: IdleSplits
    clock: Clock
    accepted: tuple[str, ...] = ()

    def resolve(self, known: Splits) -> Splits:
        """Returns the splits of each source with their start, and their stop if they have one."""
        return self.sources.resolve(self.job, dict(known), self.accepted)

    def discover(self, splits: Splits, states: Mapping[str, SourceState]) -> Work | None:
        """Returns the work; None if there are no new rows, no floor of an idle partition rises, and not all sources
        have ended."""
        discovery = self.sources.discover(dict(splits))
        fresh, now_ms = discovery.fresh(states), self.clock.monotonic_ms()  # monotonic: the wall clock may be set
        self.idle.seen(_keys(discovery), fresh, now_ms)
        work = Work(
            discovery.splits, discovery.ranges, self.idle.raised(states, now_ms, discovery.ended), discovery.ended
        )
        return work if fresh or work.sources != states or work.over else None


def _clocks(plan: PhysicalPlan) -> dict[str, SourceClock]:
    """Returns the sources with event time."""
    specs = [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    return {
        spec.node: SourceClock(spec.time.out_of_orderness_ms + 1, spec.time.idle_after_ms)
        for spec in specs
        if spec.time is not None
    }


def _keys(found: Discovery) -> list[SplitKey]:
    return [(source, split.topic, split.partition) for source, splits in found.splits.items() for split in splits]


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The event time settings of a source. lag_ms: how far a partition's height is below its greatest event time;
    idle_after_ms None: its partitions are never idle."""

    lag_ms: int
    idle_after_ms: int | None


class IdleSplits:
    """Finds idle partitions, and computes their floors for the next increment. Pure.

    For each partition it keeps the time of the last discovery that found rows in it, else that of the first discovery.
    The height of a partition is the event time that it has reached (its watermark). A partition without rows for its
    source's `idle_after` is idle. Its height becomes that of `execution.idle_times`. The next increment applies it as
    the partition's floor, and stores it in the source's state.
    """

    def __init__(self, clocks: Mapping[str, SourceClock]) -> None:
        """clocks: of the sources with event time."""
        self._clocks = clocks
        self._active_ms: dict[SplitKey, int] = {}

    def seen(self, keys: Collection[SplitKey], fresh: Collection[SplitKey], now_ms: int) -> None:
        """Records the result of a discovery. keys: all partitions; fresh: those with rows to read."""
        for key in keys:
            if key in fresh:
                self._active_ms[key] = now_ms
            else:
                self._active_ms.setdefault(key, now_ms)

    def raised(
        self, states: Mapping[str, SourceState], now_ms: int, ended: Collection[str] = ()
    ) -> dict[str, SourceState]:
        """Returns the sources' states with the floors of idle partitions raised. ended: sources that have ended, whose
        heights hold no other partition back.
        """
        active: dict[str, list[int | None]] = {
            source: [
                self._height(source, split)
                for split in (states[source].splits if source in states else ())
                if not self._idle(source, split, now_ms)
            ]
            for source in self._clocks
            if source not in ended
        }
        reached = {
            source: [split.own_watermark(self._clocks[source].lag_ms) for split in states[source].splits]
            for source in active
            if source in states
        }
        heights = relayed_heights(active, reached)
        return {
            source: self._with_floors(source, state, heights.get(source), now_ms) for source, state in states.items()
        }

    def _with_floors(self, source: str, state: SourceState, height: int | None, now_ms: int) -> SourceState:
        if source not in self._clocks or height is None:
            return state
        splits = tuple(
            replace(split, floor=height)
            if self._idle(source, split, now_ms) and height > self._height(source, split)
            else split
            for split in state.splits
        )
        return replace(state, splits=splits)

    def _idle(self, source: str, split: SplitState, now_ms: int) -> bool:
        after_ms = self._clocks[source].idle_after_ms
        since_ms = self._active_ms.get((source, split.topic, split.partition))
        return after_ms is not None and since_ms is not None and now_ms - since_ms >= after_ms

    def _height(self, source: str, split: SplitState) -> int:
        return split.height(self._clocks[source].lag_ms)
