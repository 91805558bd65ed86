"""Builds the REST API's documents of a job's nodes, their subtasks and partitions, from the reports of its slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.models import NodeStatus, PartitionState, StateOfNode, SubtaskState
from headrace.coordinator.driver.driver import JobDriver
from headrace.coordinator.figures.job_figures import NO_STATE, JobFigures, StateSize, state_sizes, stored_states
from headrace.coordinator.figures.slot_series import NodeTotals, Rate
from headrace.coordinator.provisioning.slot_pool import PooledSlot
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.execution.manifests import total_counters
from headrace.rpc.figures import SourceFigures, TimeFigures
from headrace.rpc.status import SourceSubtaskStatus, SubtaskStatus

if TYPE_CHECKING:
    from headrace.plan.physical import PhysicalPlan, Task

NO_TOTALS = NodeTotals(0, 0, 0, 0, None, None, Rate(), Rate())


@dataclass(frozen=True, slots=True)
class _Node:
    """The known facts of one node.

    counters      over the job's life
    subtasks      the newest report of each of its subtasks, with its slot
    source        the same of a source
    totals, times, partitions, state   subtask -> figures of it
    inputs        the nodes whose rows it receives
    states        its states by place
    detailed      whether its subtasks and partitions are wanted
    """

    name: str
    kind: str
    task: Task
    counters: Mapping[str, int]
    subtasks: list[tuple[SubtaskStatus, PooledSlot | None]]
    source: list[SourceSubtaskStatus]
    totals: Mapping[int, NodeTotals]
    times: Mapping[int, TimeFigures]
    partitions: Mapping[int, SourceFigures]
    state: Mapping[int | None, StateSize]
    inputs: tuple[str, ...]
    states: tuple[StateOfNode, ...]
    detailed: bool


def node_statuses(
    plan: PhysicalPlan, driver: JobDriver, now_ms: int, *, detailed: frozenset[str] | None = None
) -> tuple[NodeStatus, ...]:
    """Returns every node of the plan, in flow order. Rows are those of all attempts, up to the restored checkpoint.

    detailed: nodes that get their subtasks and partitions, which cost most of the time; None: all do.
    """
    # imported here: a coordinator without jobs loads no planning
    from headrace.execution.planning import node_kind

    statuses, slots, job, figures = driver.statuses, driver.slots, driver.machine.job, driver.figures
    subtasks = {(each.task, each.subtask): each for status in statuses.values() for each in status.subtasks}
    sources: dict[str, list[SourceSubtaskStatus]] = {}
    for status in statuses.values():
        for each in status.sources:
            sources.setdefault(each.source, []).append(each)
    counters = total_counters([job.counted, *(status.counters for status in statuses.values())])
    states = state_sizes(job.restored, job.attempt)
    inputs, places = _inputs(plan), _states(driver)
    nodes = (
        _Node(
            name=node.node,
            kind=node_kind(node),
            task=task,
            counters=counters.get(node.node, {}),
            subtasks=[
                (each, _slot(slots, each.subtask)) for key, each in sorted(subtasks.items()) if key[0] == task.name
            ],
            source=sources.get(node.node, []),
            totals=figures.totals(node.node),
            times=figures.times(task.name),
            partitions=figures.sources(node.node),
            state=states.get(node.node, {}),
            inputs=tuple(inputs.get(node.node, ())),
            states=tuple(places.get(node.node, ())),
            detailed=detailed is None or node.node in detailed,
        )
        for task in plan.tasks
        for node in task.nodes
    )
    return tuple(_node_status(node, now_ms) for node in nodes)


def _inputs(plan: PhysicalPlan) -> dict[str, list[str]]:
    """Node -> the nodes whose rows it receives, each once. The first node of a task reads what the task receives."""
    inputs: dict[str, list[str]] = {}
    inside = [(edge.target, edge.source) for task in plan.tasks for edge in task.edges]
    for target, source in [*((edge.to_task, edge.source) for edge in plan.edges), *inside]:
        known = inputs.setdefault(target, [])
        if source not in known:
            known.append(source)
    return inputs


def _states(driver: JobDriver) -> dict[str, list[StateOfNode]]:
    """Node -> its states by place."""
    held, stored = driver.figures.states(), stored_states(driver.machine.job.restored)
    found: dict[str, list[StateOfNode]] = {}
    for node, state in sorted(held.keys() | stored.keys()):
        own, size = held.get((node, state), NO_STATE), stored.get((node, state))
        found.setdefault(node, []).append(
            StateOfNode(
                state=state,
                memory_bytes=own.memory_bytes,
                disk_bytes=own.disk_bytes,
                storage_bytes=None if size is None else size.bytes,
                rows=None if size is None else size.rows,
                growth_bytes_per_hour=driver.data.growth.per_hour((node, state)),
                dropped=(node, state) not in driver.data.growing,
            )
        )
    return found


def job_rates(plan: PhysicalPlan, figures: JobFigures) -> tuple[Rate, Rate]:
    """Returns the rates of a job: of rows that its sources read, and of rows that its sinks write."""
    from headrace.plan.totals import explicit_sinks, source_names

    return figures.rate(source_names(plan), "rows_in"), figures.rate(explicit_sinks(plan), "rows_out")


def watermark_delay_ms(watermark: int | None, now_ms: int) -> int | None:
    """Returns how far a watermark is behind the clock; None for one that is not known, or that has reached its end."""
    return None if watermark is None or watermark in {TIME_MIN, TIME_MAX} else now_ms - watermark


def _node_status(node: _Node, now_ms: int) -> NodeStatus:
    times: list[int | None] = (
        [each.watermark for each in node.source] if node.source else [each.watermark for each, _ in node.subtasks]
    )
    known = [time for time in times if time is not None and time > TIME_MIN]
    watermark = min(known) if known and len(known) == len(times) else None
    rate_in = sum((each.rate_in for each in node.totals.values()), start=Rate())
    rate_out = sum((each.rate_out for each in node.totals.values()), start=Rate())
    whole = node.state.get(None)
    return NodeStatus(
        node=node.name,
        kind=node.kind,
        parallelism=node.task.parallelism,
        rows_in=node.counters.get("rows_in", 0),
        rows_out=node.counters.get("rows_out", 0),
        late=node.counters.get("late", 0),
        bad=node.counters.get("bad", 0),
        lag=sum(each.lag for each in node.source) if node.source else None,
        watermark=watermark,
        backpressured=max((each.backpressured for each, _ in node.subtasks), default=0.0),
        busy=max((each.busy for each, _ in node.subtasks), default=0.0),
        subtasks=tuple(_subtask_state(node, each, slot, now_ms) for each, slot in node.subtasks if node.detailed),
        task=node.task.name,
        idle=min((_idle(each) for each, _ in node.subtasks), default=0.0),
        bytes_in=_sum(each.bytes_in for each in node.totals.values()),
        bytes_out=_sum(each.bytes_out for each in node.totals.values()),
        rows_in_per_s=round(rate_in.recent, 1),
        rows_out_per_s=round(rate_out.recent, 1),
        rows_in_per_s_attempt=round(rate_in.attempt, 1),
        rows_out_per_s_attempt=round(rate_out.attempt, 1),
        watermark_delay_ms=watermark_delay_ms(watermark, now_ms),
        state_bytes=None if whole is None else whole.bytes,
        state_rows=None if whole is None else whole.rows,
        partitions=_partitions(node, now_ms) if node.detailed else (),
        partitions_total=sum(each.total for each in node.partitions.values()),
        inputs=node.inputs,
        states=node.states,
    )


def _subtask_state(node: _Node, status: SubtaskStatus, slot: PooledSlot | None, now_ms: int) -> SubtaskState:
    totals = node.totals.get(status.subtask, NO_TOTALS)
    spent = node.times.get(status.subtask)
    state = node.state.get(status.subtask)
    return SubtaskState(
        subtask=status.subtask,
        worker=None if slot is None else slot.worker,
        slot=None if slot is None else slot.slot,
        rows_queued=status.rows_queued,
        busy=status.busy,
        backpressured=status.backpressured,
        watermark=status.watermark,
        ended=status.ended,
        idle=_idle(status),
        rows_in=totals.rows_in,
        rows_out=totals.rows_out,
        late=totals.late,
        bad=totals.bad,
        bytes_in=totals.bytes_in,
        bytes_out=totals.bytes_out,
        rows_in_per_s=round(totals.rate_in.recent, 1),
        rows_out_per_s=round(totals.rate_out.recent, 1),
        lag=next((each.lag for each in node.source if each.subtask == status.subtask), None),
        watermark_delay_ms=watermark_delay_ms(status.watermark, now_ms),
        busy_ms=0 if spent is None else spent.busy_ms,
        idle_ms=0 if spent is None else spent.idle_ms,
        backpressured_ms=0 if spent is None else spent.backpressured_ms,
        state_bytes=None if state is None else state.bytes,
        state_rows=None if state is None else state.rows,
        rows_in_per_s_attempt=round(totals.rate_in.attempt, 1),
        rows_out_per_s_attempt=round(totals.rate_out.attempt, 1),
    )


def _partitions(node: _Node, now_ms: int) -> tuple[PartitionState, ...]:
    found = [
        PartitionState(
            topic=each.topic,
            partition=each.partition,
            subtask=subtask,
            position=each.position,
            lag=each.lag,
            watermark=each.watermark,
            watermark_delay_ms=watermark_delay_ms(each.watermark, now_ms),
            idle=each.idle,
        )
        for subtask, source in node.partitions.items()
        for each in source.partitions
    ]
    return tuple(sorted(found, key=lambda each: (each.topic, each.partition)))


def _idle(status: SubtaskStatus) -> float:
    return round(max(0.0, 1.0 - status.busy - status.backpressured), 3)


def _sum(values: Iterable[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _slot(slots: tuple[PooledSlot, ...], index: int) -> PooledSlot | None:
    return slots[index] if index < len(slots) else None
