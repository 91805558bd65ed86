"""The common part of a replay and of a followed pipeline: the options, the configuration, the computation of an epoch,
the publication.

Nothing of a computation is visible to readers of the sinks: result rows are staged in checkpoint storage, and states
are written beside the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headrace import __version__
from headrace.checkpoint.manifest import Manifest, SplitDocument, StateHandle, learned_of
from headrace.checkpoint.unique_names import unique_part
from headrace.core.clock import Clock
from headrace.core.errors import UserError
from headrace.core.source_state import AppliedFloor, SourceState, compacted
from headrace.execution.origin import Origin
from headrace.execution.planning import JobPlans
from headrace.execution.split_assignment import assign_splits
from headrace.plan.physical import PhysicalPlan, SourceSpec, StepSpec, Task
from headrace.spark.driver.exchange import Exchange
from headrace.spark.driver.manifest import CutFacts, manifest_of, one_of_each, states_of
from headrace.spark.driver.publication import Publication, Say
from headrace.spark.driver_machine.config import DriverConfig
from headrace.spark.driver_machine.epoch import Epoch
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.order import JobOrder, SourceShare


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverWish:
    """The options of a driver's run.

    job, storage     the job's id, and the URL of its folder in checkpoint storage
    parallelism      of nodes that set none themselves
    savepoint        folder for a savepoint at the end
    final            windows are closed at the end even with a savepoint
    origin           savepoint or checkpoint to start from, if the job has no checkpoint yet
    accepted_topics  topics of the origin that may be other ones now: they begin as new ones
    floors           watermarks that an earlier run assigned to idle partitions, to be applied again
    python_path      import path entries for the user's functions
    allow_repeated   publish even if a sink may have forgotten which rows it has
    """

    job: str
    storage: str
    parallelism: int
    savepoint: str | None = None
    final: bool = False
    origin: Origin | None = None
    accepted_topics: tuple[str, ...] = ()
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = ()
    allow_repeated: bool = False


def config_of(wish: DriverWish, plans: JobPlans, *, bounded: bool) -> DriverConfig:
    """Returns the configuration of one driver, with unique names for its savepoints."""
    origin = wish.origin
    return DriverConfig(
        job=wish.job,
        storage=wish.storage,
        parallelism=wish.parallelism,
        plan_hash=plans.facts(wish.parallelism).plan_hash,
        unique=unique_part(),
        bounded=bounded,
        begin=None if origin is None else origin.manifest,
        begin_url=None if origin is None else origin.url,
        savepoint=wish.savepoint,
        final=wish.final,
    )


def computation_of(
    wish: DriverWish, plans: JobPlans, exchange: Exchange, clock: Clock, *, say: Say, publish: bool = True
) -> Computation:
    """Returns the job's engine. publish: the rows will be published to the sinks."""
    return Computation(
        plans=plans,
        parallelism=wish.parallelism,
        job=wish.job,
        storage=wish.storage,
        exchange=exchange,
        clock=clock,
        say=say,
        floors=wish.floors,
        python_path=wish.python_path,
        publish=publish,
    )


def publication_of(wish: DriverWish, plans: JobPlans, exchange: Exchange, clock: Clock, *, say: Say) -> Publication:
    """Returns the job's publication."""
    return Publication(plans, wish.parallelism, wish.storage, exchange, say, clock, allow_repeated=wish.allow_repeated)


@dataclass(frozen=True, slots=True)
class Computation:
    """Computes epochs of one job: each reads a range of the sources, and continues from the state before it.

    job, storage   its id, and the URL of its folder
    publish        the rows will be published to the sinks; False: they stay staged
    """

    plans: JobPlans
    parallelism: int
    job: str
    storage: str
    exchange: Exchange
    clock: Clock
    say: Callable[[str], None]
    floors: tuple[AppliedFloor, ...] = ()
    python_path: tuple[str, ...] = field(default=())
    publish: bool = True

    def run(self, epoch: Epoch) -> tuple[Manifest, tuple[StateHandle, ...]]:
        """Computes an epoch. Returns its manifest, and its states with paths relative to their folder. Raises
        UserError, DataError, ExternalError.
        """
        plan, facts = self.plans.plan(self.parallelism), self.plans.facts(self.parallelism)
        known = {} if epoch.before is None else epoch.before.sources
        sources = known if epoch.sources is None else epoch.sources
        shares = shares_of(plan, epoch.ranges, sources)
        order = JobOrder(
            job=self.job,
            attempt=epoch.attempt,
            epoch=epoch.number,
            pipeline=self.plans.file_form(self.parallelism),
            plan_hash=facts.plan_hash,
            shares=shares,
            storage=self.storage,
            states=epoch.states,
            restore=() if epoch.before is None else epoch.before.states,
            floors=compacted([*self.floors, *(floor for state in sources.values() for floor in state.applied)]),
            hand_over=epoch.hand_over,
            deltas=epoch.deltas,
            publish=self.publish,
            closed=epoch.closed,
            python_path=self.python_path,
            formats=learned_of(epoch.formats),
        )
        levels = levels_of(plan, {task: len(own) for task, own in shares.items()})
        self.say(f"computing: {' + '.join(str(width) for width in levels.widths)} tasks")
        reports = one_of_each(self.exchange.run(order, levels.widths), levels)
        cut = CutFacts(
            job=self.job,
            pipeline=plan.pipeline,
            version=__version__,
            epoch=epoch.number,
            attempt=epoch.attempt,
            created_at_ms=self.clock.now_ms(),
            facts=facts,
            splits=epoch.ranges if epoch.splits is None else epoch.splits,
            before=known,
            counted={} if epoch.before is None else epoch.before.counters,
            closed=not epoch.hand_over,
            last=epoch.last,
            formats=epoch.formats,
        )
        manifest = manifest_of(cut, plan, reports, None if epoch.deltas else epoch.states)
        return manifest, states_of(reports)


def shares_of(
    plan: PhysicalPlan, splits: Mapping[str, Iterable[SplitDocument]], states: Mapping[str, SourceState]
) -> dict[str, tuple[SourceShare, ...]]:
    """Returns source task -> the share of each of its partitions: one split each, or all splits if a step in the same
    task keeps state. A source without splits still has one partition, because its watermark must be sent.

    states   the sources' states in the savepoint that the run begins with
    """
    return {
        task.name: _shares(task, spec, splits.get(spec.node, ()), states.get(spec.node, SourceState()))
        for task in plan.tasks
        if isinstance(spec := task.nodes[0], SourceSpec)
    }


def _shares(
    task: Task, spec: SourceSpec, splits: Iterable[SplitDocument], state: SourceState
) -> tuple[SourceShare, ...]:
    (assigned,) = assign_splits(splits, state, 1)
    for each in assigned:
        if each.split.stop is None:
            raise UserError(
                f"source {spec.node!r} has no end", remedy="give it one: --until, or `stop:` or `rows:` of the source"
            )
    if keeps_state(task) or not assigned:
        return (SourceShare(assigned, state.emitted),)
    return tuple(SourceShare((each,), state.emitted) for each in assigned)


def keeps_state(task: Task) -> bool:
    """Whether a step of the task keeps state."""
    return any(isinstance(node, StepSpec) and node.config.states() for node in task.nodes)
