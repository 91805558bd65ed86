"""What of a plan the warnings about data refer to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.coordinator.figures.slot_series import StateKey
from headrace.core.types import TimestampUnit

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan, SourceSpec


@dataclass(frozen=True, slots=True)
class WatchedSource:
    """What is known of a source from the plan.

    time_column   the column with the event time; None: it is an expression, or the record's own time
    unit          how integers of that column are read
    timed         its rows have an event time
    task          the task that reads it
    """

    name: str
    timed: bool = False
    time_column: str | None = None
    unit: TimestampUnit = "ms"
    out_of_orderness_ms: int = 0
    idle_after_ms: int | None = None
    task: str = ""


@dataclass(frozen=True, slots=True)
class WatchedPlan:
    """The nodes that are watched.

    windows   windowed step -> the sources that its rows come from
    gates     windowed step -> the nearest node with several inputs that its rows come through, if there is one
    growing   states whose rows become more with the data, and that nothing drops
    """

    sources: tuple[WatchedSource, ...] = ()
    filters: tuple[str, ...] = ()
    windows: Mapping[str, tuple[str, ...]] | None = None
    gates: Mapping[str, str] = field(default_factory=dict)
    growing: tuple[StateKey, ...] = ()


def watched_plan(plan: PhysicalPlan) -> WatchedPlan:
    """The sources, filters and windowed steps of a plan."""
    # imported here: a coordinator without jobs loads no planning
    from headrace.plan.physical import SourceSpec, StepSpec

    nodes = [node for task in plan.tasks for node in task.nodes]
    steps = [node for node in nodes if isinstance(node, StepSpec)]
    return WatchedPlan(
        sources=tuple(
            _source(node, task.name) for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)
        ),
        filters=tuple(node.node for node in steps if node.config.selects_rows),
        windows=plan.windowed(),
        gates=dict(_gates(plan)),
        growing=tuple((node.node, each.name) for node in steps for each in node.config.states() if each.grows),
    )


def _gates(plan: PhysicalPlan) -> Iterator[tuple[str, str]]:
    from headrace.plan.physical import StepSpec

    nearest: dict[str, str] = {}
    # the plan's tasks are in topological order, and a node with several inputs heads its task
    for task in plan.tasks:
        inputs = plan.inputs(task.name)
        if len(inputs) > 1:
            nearest[task.name] = task.name
        elif inputs and inputs[0].from_task in nearest:
            nearest[task.name] = nearest[inputs[0].from_task]
        if task.name in nearest:
            steps = (node for node in task.nodes if isinstance(node, StepSpec) and node.config.windowed)
            yield from ((node.node, nearest[task.name]) for node in steps)


def _source(spec: SourceSpec, task: str) -> WatchedSource:
    from headrace.core.types import Timestamp
    from headrace.plan.physical import RowTime

    time = spec.time
    if time is None:
        return WatchedSource(spec.node, task=task)
    column = time.expression if isinstance(time, RowTime) and time.expression in spec.schema else None
    kind = None if column is None else spec.schema.field(column).type
    unit = kind.unit if isinstance(kind, Timestamp) else "ms"
    return WatchedSource(
        spec.node,
        timed=True,
        time_column=column,
        unit=unit,
        out_of_orderness_ms=time.out_of_orderness_ms,
        idle_after_ms=time.idle_after_ms,
        task=task,
    )
