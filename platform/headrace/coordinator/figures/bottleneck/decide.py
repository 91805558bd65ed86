"""Finds the bottleneck of a job from its figures. Pure: a view in, one verdict out.

The order of the questions matters: a busy task explains waits and long checkpoints elsewhere, so it comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from headrace.coordinator.figures.bottleneck.verdict import (
    HeldTime,
    KeepsUp,
    NotRunning,
    SkewedKeys,
    SkewedPartitions,
    SlowCheckpoints,
    SlowFetch,
    SlowNode,
    SlowSink,
    SlowSubtask,
    SmallBatches,
    TooEarly,
    Verdict,
)
from headrace.coordinator.figures.bottleneck.view import KeyShare, LiveView, NodeSpent, SubtaskView, TaskView

WINDOW_MIN_MS = 2_000
"""The least time that figures must cover."""
BUSY = 0.7
"""A subtask that is busy for this share of its time has little left."""
BUSY_BELOW_WAITS = 0.3
"""The same for a task that others wait for: it works in bursts."""
WAITS = 0.2
"""A task whose senders are backpressured for this share of their time holds them up."""
SKEW = 0.5
"""Skew: the other subtasks are busy for at most this part of the busiest one's share."""
MORE_ROWS = 1.5
"""Skew by rows: the busiest subtask has this many times the median of the others."""
HEAVY_KEY = 0.1
"""A key with this share of all rows is heavy; so is a key group."""
MOSTLY = 0.5
"""A node with this share of its task's time is the cause."""
SMALL_ROWS = 100
"""Batches with fewer rows are small."""
OVERHEAD_MS = 5.0
"""A small batch that takes longer than this is slow for its rows' sake, not because it is small."""
BEHIND_S = 5.0
"""A source that has so many seconds of its own rate left to read is behind."""
IN_FLIGHT = 0.7
"""Checkpoints that are in flight for this share of the time take most of it."""
LONG_MS = 1_000
"""Checkpoints that take less do no harm."""


def decide(view: LiveView) -> Verdict:
    """The bottleneck of a job."""
    if view.state != "RUNNING":
        return NotRunning(view.state, view.message)
    if view.window_ms < WINDOW_MIN_MS or not any(task.subtasks for task in view.tasks):
        return TooEarly(view.running_ms)
    task = _bottleneck(view)
    if task is not None:
        return _skew(view, task) or _sink(task) or _batches(task) or _node(task)
    return _held_time(view) or _checkpoints(view) or _fetch(view) or _keeps_up(view)


def _bottleneck(view: LiveView) -> TaskView | None:
    """The task that limits the job: of busy tasks the last one that its senders wait for, else the busiest."""
    tasks = [task for task in view.tasks if task.subtasks]
    waited_for = [task for task in tasks if _held_up(view, task) >= WAITS and task.busiest.busy >= BUSY_BELOW_WAITS]
    busy = [task for task in tasks if task.busiest.busy >= BUSY]
    if limiting := [task for task in waited_for if task in busy]:
        return limiting[-1]
    if busy:
        return max(busy, key=lambda task: task.busiest.busy)
    return max(waited_for, key=lambda task: task.busiest.busy, default=None)


def _held_up(view: LiveView, task: TaskView) -> float:
    """The greatest share of time that a sender of the task is backpressured."""
    senders = [view.task(name) for name in task.upstream]
    return max((sender.backpressured for sender in senders if sender.subtasks), default=0.0)


# ---- a task that is busy ---------------------------------------------------------------------------------------------


def _skew(view: LiveView, task: TaskView) -> Verdict | None:
    busiest = task.busiest
    rest = [each for each in task.subtasks if each is not busiest]
    if not rest:
        return None
    others = median(each.busy for each in rest)
    if others > SKEW * busiest.busy:
        return None
    rows = median(each.rows for each in rest)
    if busiest.rows < MORE_ROWS * rows:
        return SlowSubtask(task.name, busiest.subtask, busiest.worker, busiest.busy, others)
    if task.reads_source:
        own = [each for each in view.source(task.name).partitions if each.subtask == busiest.subtask]
        heavy = max(own, key=lambda each: (each.rows_per_s or 0.0, each.lag or 0), default=None)
        return SkewedPartitions(task.name, busiest.subtask, busiest.busy, others, heavy)
    return SkewedKeys(
        task.name,
        task.nodes[0].name,
        busiest.subtask,
        busiest.busy,
        others,
        None if rows == 0 else busiest.rows / rows,
        _heavy(task, busiest),
        () if task.keys is None else task.keys.columns,
    )


def _heavy(task: TaskView, busiest: SubtaskView) -> KeyShare | None:
    if task.keys is None:
        return None
    for found in (task.keys.keys, task.keys.groups):
        own = [each for each in found if each.subtask == busiest.subtask and each.share >= HEAVY_KEY]
        if own:
            return max(own, key=lambda each: each.share)
    return None


def _sink(task: TaskView) -> SlowSink | None:
    busy_ms = _busy_ms(task.subtasks)
    for node in task.nodes:
        spent = _spent(task, node.name)
        # `write` and `flush` are measured while they go on, so that one call that takes longer than a report counts
        own_ms = max(spent.own_ms, spent.write_ms + spent.flush_ms)
        if node.kind == "sink" and own_ms >= MOSTLY * busy_ms:
            return SlowSink(
                task.name,
                node.name,
                node.connector,
                task.busiest.busy,
                _share(own_ms, busy_ms),
                _share(spent.write_ms, busy_ms),
                _share(spent.flush_ms, busy_ms),
            )
    return None


def _batches(task: TaskView) -> SmallBatches | None:
    busiest = task.busiest
    if not busiest.batches:
        return None
    rows_per_batch = busiest.rows / busiest.batches
    if rows_per_batch >= SMALL_ROWS or busiest.busy_ms / busiest.batches > OVERHEAD_MS:
        return None
    return SmallBatches(task.name, task.nodes[0].name, busiest.busy, rows_per_batch)


def _node(task: TaskView) -> SlowNode:
    slowest = max(task.nodes, key=lambda node: _spent(task, node.name).own_ms)
    share = _share(_spent(task, slowest.name).own_ms, _busy_ms(task.subtasks))
    return SlowNode(task.name, slowest.name, slowest.kind, task.busiest.busy, share, len(task.subtasks))


def _spent(task: TaskView, node: str) -> NodeSpent:
    spent = [each.spent.get(node, NodeSpent()) for each in task.subtasks]
    return NodeSpent(
        sum(each.own_ms for each in spent),
        sum(each.write_ms for each in spent),
        sum(each.flush_ms for each in spent),
    )


def _busy_ms(subtasks: Sequence[SubtaskView]) -> int:
    return max(1, sum(each.busy_ms for each in subtasks))


def _share(part_ms: int, whole_ms: int) -> float:
    return min(1.0, part_ms / whole_ms)


# ---- no task is busy -------------------------------------------------------------------------------------------------


def _held_time(view: LiveView) -> HeldTime | None:
    held = [source for source in view.sources if source.quiet]
    if not held:
        return None
    source = max(held, key=lambda each: each.quiet[0].quiet_ms)
    return HeldTime(source.source, source.quiet[0], len(source.quiet) - 1, source.idle_after)


def checkpoint_share(view: LiveView) -> float:
    """The share of time that checkpoints were in flight, over the complete ones; 0 with fewer than two."""
    if len(view.checkpoints) < 2:
        return 0.0
    newest, oldest = view.checkpoints[0], view.checkpoints[-1]
    span_ms = newest.started_at_ms - oldest.started_at_ms
    took_ms = sum(each.took_ms for each in view.checkpoints[1:])
    return min(1.0, took_ms / max(span_ms, 1))


def _checkpoints(view: LiveView) -> SlowCheckpoints | None:
    share = checkpoint_share(view)
    if share < IN_FLIGHT or view.checkpoints[0].took_ms < LONG_MS:
        return None
    return SlowCheckpoints(share, view.checkpoints[0].took_ms, view.interval_ms)


def _fetch(view: LiveView) -> SlowFetch | None:
    behind = [each for each in view.sources if each.lag > 0 and each.lag >= BEHIND_S * each.rows_per_s]
    if not behind:
        return None
    source = max(behind, key=lambda each: each.lag)
    furthest = max(source.partitions, key=lambda each: each.lag or 0, default=None)
    return SlowFetch(source.source, source.lag, furthest, source.has_drift)


def _keeps_up(view: LiveView) -> KeepsUp:
    busiest = max((task for task in view.tasks if task.subtasks), key=lambda task: task.busiest.busy)
    return KeepsUp(busiest.name, busiest.busiest.busy)
