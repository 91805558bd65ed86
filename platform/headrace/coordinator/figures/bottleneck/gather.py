"""Takes the view of a job (`view`) from the reports of its slots. Pure: the plan and the reports in, the view out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.coordinator.figures.bottleneck.view import (
    CheckpointView,
    KeyShare,
    KeysView,
    LiveView,
    NodeSpent,
    NodeView,
    PartitionView,
    SourceView,
    SubtaskView,
    TaskView,
)
from headrace.coordinator.figures.checkpoint_log import CheckpointEntry
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.quiet_partitions import quiet_partitions
from headrace.rpc.figures import KeyFigures

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan, Task

CHECKPOINTS_LOOKED_AT = 10
"""Newest complete checkpoints of the attempt that count."""


@dataclass(frozen=True, slots=True)
class JobNow:
    """The job's state, attempt and workers, which are not in the figures. workers: by slot index."""

    state: str
    message: str
    attempt: int
    workers: tuple[str, ...] = ()


def live_view(
    plan: PhysicalPlan, figures: JobFigures, checkpoints: Iterable[CheckpointEntry], *, now: JobNow
) -> LiveView:
    """The view of a job. `checkpoints`: its log, the newest first."""
    transactions = figures.transactions()
    return LiveView(
        state=now.state,
        message=now.message,
        running_ms=figures.running_ms,
        window_ms=min((each.window_ms for each in figures.series.values()), default=0),
        tasks=tuple(_task(plan, task, figures, now) for task in plan.tasks),
        sources=tuple(_sources(plan, figures)),
        checkpoints=_checkpoints(checkpoints, now.attempt),
        interval_ms=plan.checkpoint.interval_ms,
        oldest_transaction_ms=transactions[0][1].age_ms if transactions else 0,
    )


def _task(plan: PhysicalPlan, task: Task, figures: JobFigures, now: JobNow) -> TaskView:
    return TaskView(
        name=task.name,
        nodes=tuple(_nodes(task)),
        subtasks=tuple(_subtasks(task, figures, now)),
        upstream=tuple(dict.fromkeys(edge.from_task for edge in plan.edges if edge.to_task == task.name)),
        downstream=tuple(dict.fromkeys(edge.to_task for edge in plan.edges if edge.from_task == task.name)),
        keys=_keys(task.name, figures),
    )


def _nodes(task: Task) -> Iterator[NodeView]:
    # imported here: a coordinator without jobs loads no planning
    from headrace.execution.planning import node_kind
    from headrace.plan.physical import StepSpec

    for node in task.nodes:
        yield NodeView(node.node, node_kind(node), "" if isinstance(node, StepSpec) else node.connector)


def _subtasks(task: Task, figures: JobFigures, now: JobNow) -> Iterator[SubtaskView]:
    for index, series in sorted(figures.series.items()):
        spent = series.recent_time(task.name)
        if spent is None:
            continue
        nodes = {node.node: series.recent_node(node.node) for node in task.nodes}
        yield SubtaskView(
            subtask=index,
            busy=spent.busy,
            idle=spent.idle,
            backpressured=spent.backpressured,
            busy_ms=spent.busy_ms,
            rows=series.recent_rows(task.name, "rows_in"),
            batches=spent.batches,
            worker=now.workers[index] if index < len(now.workers) else "",
            spent={name: NodeSpent(each.own_ms, each.write_ms, each.flush_ms) for name, each in nodes.items()},
        )


def _keys(task: str, figures: JobFigures) -> KeysView | None:
    """The heaviest keys of all subtasks: each one's share among its subtask's rows, times that subtask's share."""
    samples = [
        (index, each, max(series.recent_rows(task, "rows_in"), 0))
        for index, series in figures.series.items()
        if series.figures is not None
        for each in series.figures.keys
        if each.task == task
    ]
    rows = sum(count for _, _, count in samples)
    if not rows:
        return None
    weighed = [(index, each, count / rows) for index, each, count in samples if each.rows]
    keys = [
        KeyShare(key.group, index, weight * min(1.0, key.rows / each.rows), key.key)
        for index, each, weight in weighed
        for key in each.keys
    ]
    groups = [
        KeyShare(group.group, index, weight * min(1.0, group.rows / each.rows))
        for index, each, weight in weighed
        for group in each.groups
    ]
    return KeysView(_columns([each for _, each, _ in weighed]), _heaviest(keys), _heaviest(groups))


def _columns(samples: Sequence[KeyFigures]) -> tuple[str, ...]:
    return samples[0].columns if samples else ()


def _heaviest(shares: Iterable[KeyShare]) -> tuple[KeyShare, ...]:
    return tuple(sorted(shares, key=lambda each: (-each.share, each.group, each.key or "")))


def _sources(plan: PhysicalPlan, figures: JobFigures) -> Iterator[SourceView]:
    from headrace.plan.physical import SourceSpec

    for task in plan.tasks:
        spec = task.nodes[0]
        if not isinstance(spec, SourceSpec):
            continue
        reported = figures.sources(spec.node)
        partitions = [
            PartitionView(
                each.topic,
                each.partition,
                subtask,
                figures.series[subtask].partition_rate((spec.node, each.topic, each.partition)),
                each.lag,
            )
            for subtask, source in reported.items()
            for each in source.partitions
        ]
        timed = [] if spec.time is None else [each for source in reported.values() for each in source.partitions]
        yield SourceView(
            spec.node,
            tuple(partitions),
            sum(source.total for source in reported.values()),
            tuple(quiet_partitions(timed)),
            idle_after=spec.time is not None and spec.time.idle_after_ms is not None,
            has_drift=spec.time is not None and spec.time.max_drift_ms is not None,
            holds=_input_of(plan, task.name),
            rows_per_s=figures.rate([spec.node], "rows_in").recent,
        )


def _input_of(plan: PhysicalPlan, source: str) -> str:
    """The input by which the rows of a source's task reach the nearest node with several inputs; or nothing."""
    reached = [source]
    for name in reached:
        for edge in plan.edges:
            if edge.from_task == name and len(plan.inputs(edge.to_task)) > 1:
                return f"input {edge.input} of {edge.to_task}"
            if edge.from_task == name and edge.to_task not in reached:
                reached.append(edge.to_task)
    return ""


def _checkpoints(entries: Iterable[CheckpointEntry], attempt: int) -> tuple[CheckpointView, ...]:
    complete = [each for each in entries if each.attempt == attempt and each.status in {"completed", "committed"}]
    return tuple(_checkpoint(each) for each in complete[:CHECKPOINTS_LOOKED_AT])


def _checkpoint(entry: CheckpointEntry) -> CheckpointView:
    slowest = entry.slowest[0] if entry.slowest else None
    return CheckpointView(
        took_ms=entry.took_ms or 0,
        started_at_ms=entry.started_at_ms,
        aligned_ms=entry.aligned_ms,
        bytes_written=entry.bytes_written,
        slowest="" if slowest is None else f"{slowest.task}-{slowest.subtask}",
        slowest_ms=0 if slowest is None else slowest.took_ms,
    )
