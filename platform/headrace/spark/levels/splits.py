"""Assigns splits to the partitions of a source task. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.checkpoint.manifest import SplitDocument
from headrace.core.errors import UserError
from headrace.core.source_state import SourceState
from headrace.execution.split_assignment import assign_splits
from headrace.operators.state_shape import state_shape
from headrace.plan.physical import PhysicalPlan, SourceSpec, StepSpec, Task
from headrace.spark.task.order import SourceShare


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
    return any(isinstance(node, StepSpec) and state_shape(node.config) for node in task.nodes)
