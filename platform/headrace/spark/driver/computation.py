"""One computation on Spark: reads a range of the sources, continues from the state before it, and returns the job's
next manifest.

Nothing of it is visible to readers of the sinks: result rows are staged in checkpoint storage, and states are written
beside the earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace import __version__
from headrace.checkpoint.manifest import Manifest, StateHandle
from headrace.core.clock import Clock
from headrace.core.source_state import AppliedFloor, compacted
from headrace.execution.planning import JobPlans
from headrace.spark.driver.manifest import CutFacts, manifest_of, one_of_each, states_of
from headrace.spark.driver_machine.epoch import Epoch
from headrace.spark.levels.exchange import Exchange
from headrace.spark.levels.levels import levels_of
from headrace.spark.levels.splits import shares_of
from headrace.spark.task.order import JobOrder


@dataclass(frozen=True, slots=True)
class Computation:
    """Computes epochs of one job.

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
        )
        manifest = manifest_of(cut, plan, reports, None if epoch.deltas else epoch.states)
        return manifest, states_of(reports)
