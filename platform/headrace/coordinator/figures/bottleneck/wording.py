"""Writes a verdict for people: one line, the evidence, one remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from headrace.coordinator.figures.bottleneck.decide import LONG_MS, checkpoint_share
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
from headrace.coordinator.figures.bottleneck.view import KeyShare, LiveView, PartitionView, TaskView
from headrace.core.text.span_text import span_text

KEYS_SHOWN = 5
"""Most keys in the evidence."""
KEY_SHOWN = 0.01
"""The least share of a key or group in the evidence: a sample says nothing about smaller ones."""
PARTITIONS_SHOWN = 3
"""Most partitions in the evidence."""
NOTABLE = 0.5
"""Checkpoints in flight for this share of the time are part of the evidence."""


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict as text. kind: a word for programs; node, subtask, key, topic, partition: what it names."""

    kind: str
    verdict: str
    evidence: tuple[str, ...]
    remedy: str | None = None
    node: str | None = None
    subtask: int | None = None
    key: str | None = None
    topic: str | None = None
    partition: int | None = None


def report(view: LiveView, verdict: Verdict) -> Report:
    """The text of a verdict about this view."""
    match verdict:
        case NotRunning(state, message):
            evidence = (message,) if message else ()
            return Report("not-running", f"the job does not run: it is {state}", evidence)
        case TooEarly(running_ms):
            return Report("too-early", f"no figures yet: its subtasks run for {span_text(running_ms)}", ())
        case SkewedKeys() | SkewedPartitions() | SlowSubtask() | SlowSink() | SmallBatches() | SlowNode():
            return _busy(view, verdict)
        case HeldTime():
            return _held_time(view, verdict)
        case SlowCheckpoints():
            return _slow_checkpoints(view, verdict)
        case SlowFetch():
            return _slow_fetch(view, verdict)
        case KeepsUp(busiest, busy):
            text = f"nothing: it keeps up. The busiest task, {busiest}, is busy for {busy:.0%} of its time"
            return Report("keeps-up", text, (*_source_lines(view), *_checkpoint_lines(view)))
        case _:
            assert_never(verdict)


# ---- a busy task -----------------------------------------------------------------------------------------------------

_Busy = SkewedKeys | SkewedPartitions | SlowSubtask | SlowSink | SmallBatches | SlowNode


def _busy(view: LiveView, verdict: _Busy) -> Report:
    match verdict:
        case SkewedKeys():
            return _skewed_keys(view, verdict)
        case SkewedPartitions():
            return _skewed_partitions(view, verdict)
        case SlowSubtask(task, subtask, worker, busiest, others):
            where = f"worker {worker}" if worker else "its worker"
            return Report(
                "slow-subtask",
                f"subtask {subtask} of {task} is slow: busy for {busiest:.0%} of its time, the others for {others:.0%}",
                ("all subtasks have about as many rows", *_task_lines(view, view.task(task))),
                f"look at {where}: its CPUs may be shared with other programs or slower",
                node=task,
                subtask=subtask,
            )
        case SlowSink():
            return _slow_sink(view, verdict)
        case SmallBatches(task, node, busy, rows_per_batch):
            return Report(
                "small-batches",
                f"{node} has small batches: {rows_per_batch:.0f} rows each, and is busy for {busy:.0%} of its time",
                _task_lines(view, view.task(task)),
                "raise `batch: {max_delay: ..}`, for more rows a batch, or lower the parallelism of its senders",
                node=node,
            )
        case SlowNode():
            return _slow_node(view, verdict)
        case _:
            assert_never(verdict)


def _skewed_keys(view: LiveView, verdict: SkewedKeys) -> Report:
    columns = ", ".join(verdict.columns)
    heavy = verdict.heavy
    ratio = "" if verdict.rows_ratio is None else f", and has {verdict.rows_ratio:.1f} times the rows"
    lines = [
        f"subtask {verdict.subtask} is busy for {verdict.busiest:.0%} of its time, the others for "
        f"{verdict.others:.0%} (median){ratio}"
    ]
    task = view.task(verdict.task)
    if heavy is None:
        cause = "its keys are spread unevenly"
        remedy = f"raise `max_parallelism` for a new job, or choose a key with more values than {columns or 'this one'}"
    elif heavy.key is None:
        cause = f"key group {heavy.group} has {heavy.share:.0%} of the rows"
        remedy = (
            "several heavy keys share that group: another `max_parallelism` (a new job) or parallelism divides them"
        )
    else:
        cause = f"key {columns} = {heavy.key} has {heavy.share:.0%} of the rows"
        remedy = (
            f"divide the key: aggregate by {columns} and a salt (`with_columns: {{salt: some_id % 8}}`) first, then by "
            f"{columns} alone; more parallelism does not help"
        )
    lines += _key_lines(task)
    return Report(
        "skewed-keys",
        f"{verdict.node} is skewed: {cause}, and subtask {verdict.subtask} limits the job",
        (*lines, *_task_lines(view, task)),
        remedy,
        node=verdict.node,
        subtask=verdict.subtask,
        key=None if heavy is None else heavy.key,
    )


def _key_lines(task: TaskView) -> Iterator[str]:
    if task.keys is None:
        return
    keys = [each for each in task.keys.keys[:KEYS_SHOWN] if each.share >= KEY_SHOWN]
    if keys:
        shown = "; ".join(_key(each) for each in keys)
        yield f"heaviest keys ({', '.join(task.keys.columns)}, from a sample): {shown}"
    heavy = [each for each in task.keys.groups[:KEYS_SHOWN] if each.share >= KEY_SHOWN]
    if heavy:
        groups = "; ".join(f"{each.group} {each.share:.0%}" for each in heavy)
        yield f"heaviest key groups: {groups}"


def _key(share: KeyShare) -> str:
    return f"{share.key} {share.share:.0%} (group {share.group}, subtask {share.subtask})"


def _skewed_partitions(view: LiveView, verdict: SkewedPartitions) -> Report:
    heavy, source = verdict.heavy, view.source(verdict.source)
    name = "" if heavy is None else f": most rows come from partition {heavy.partition} of {heavy.topic}"
    return Report(
        "skewed-partitions",
        f"{verdict.source} is skewed{name}, and subtask {verdict.subtask} limits the job",
        (
            f"subtask {verdict.subtask} is busy for {verdict.busiest:.0%} of its time, the others for "
            f"{verdict.others:.0%} (median)",
            *_task_lines(view, view.task(verdict.source)),
        ),
        "spread the messages over the topic's partitions (the producer's key or partitioner)"
        + ("" if source.total > len(view.task(verdict.source).subtasks) else ", or give the topic more partitions"),
        node=verdict.source,
        subtask=verdict.subtask,
        topic=None if heavy is None else heavy.topic,
        partition=None if heavy is None else heavy.partition,
    )


def _slow_sink(view: LiveView, verdict: SlowSink) -> Report:
    lines = [
        f"of the busy time of its task {verdict.write:.0%} is in `write` and {verdict.flush:.0%} in `flush` "
        "(delivery of what was written, at a checkpoint)"
    ]
    if view.oldest_transaction_ms >= LONG_MS:
        lines.append(f"the oldest open transaction has lasted {span_text(view.oldest_transaction_ms)}")
    if verdict.flush > verdict.write:
        remedy = "most of it is the flush at a checkpoint: raise `checkpoint: {interval: ..}`, or look at the brokers"
    elif verdict.connector == "kafka":
        remedy = (
            f"raise the parallelism of {verdict.sink} and the partitions of its topic, or set `properties: "
            "{linger.ms: .., compression.type: ..}`; check the brokers' produce latency"
        )
    else:
        remedy = (
            f"raise `parallelism` of {verdict.sink}, or make its writes larger: "
            f"`headrace connectors {verdict.connector}` lists its options"
        )
    return Report(
        "slow-sink",
        f"sink {verdict.sink} ({verdict.connector}) is slow: it takes {verdict.share:.0%} of the time of a task that "
        f"is busy for {verdict.busy:.0%}",
        (*lines, *_task_lines(view, view.task(verdict.task))),
        remedy,
        node=verdict.sink,
    )


def _slow_node(view: LiveView, verdict: SlowNode) -> Report:
    if verdict.kind == "source":
        what = f"{verdict.node} is the bottleneck: reading and decoding"
        source = view.source(verdict.node)
        more = "" if source.total > verdict.parallelism else f" (its topics have {source.total} partitions: add some)"
        remedy = f"raise the parallelism of {verdict.node}{more}, or leave out columns that no step reads"
    else:
        what = f"{verdict.node} ({verdict.kind}) is the bottleneck: its own work"
        remedy = f"raise `parallelism` of {verdict.node} (now {verdict.parallelism}), if the hosts have idle CPUs"
    return Report(
        "slow-node",
        f"{what} takes {verdict.share:.0%} of the time of a task that is busy for {verdict.busy:.0%}",
        _task_lines(view, view.task(verdict.task)),
        remedy,
        node=verdict.node,
    )


# ---- no busy task ----------------------------------------------------------------------------------------------------


def _held_time(view: LiveView, verdict: HeldTime) -> Report:
    quiet = verdict.quiet
    behind = "it has had no row" if quiet.behind_ms is None else f"it is {span_text(quiet.behind_ms)} behind"
    more = f"; {verdict.more} more do" if verdict.more else ""
    source = view.source(verdict.source)
    through = f" at {source.holds}" if source.holds else ""
    remedy = (
        "its `idle_after` is longer than that: lower it"
        if verdict.idle_after
        else "set `time: {.., idle_after: 30s}` of the source, so that a quiet partition does not hold time back"
    )
    return Report(
        "held-time",
        f"partition {quiet.partition} of {quiet.topic} holds time back{through}: no row of it for "
        f"{span_text(quiet.quiet_ms)}, so windows do not close",
        (f"in event time {behind} the other partitions of {verdict.source}{more}", *_source_lines(view)),
        remedy,
        node=verdict.source,
        topic=quiet.topic,
        partition=quiet.partition,
    )


def _slow_checkpoints(view: LiveView, verdict: SlowCheckpoints) -> Report:
    newest = view.checkpoints[0]
    slowest = f"; slowest subtask {newest.slowest}: {span_text(newest.slowest_ms)}" if newest.slowest else ""
    remedy = (
        "barriers wait for each other: look for a subtask that is backpressured at times, or raise the parallelism"
        if newest.aligned_ms * 2 > newest.took_ms
        else "raise `checkpoint: {interval: ..}`, or use faster checkpoint storage"
    )
    return Report(
        "slow-checkpoints",
        f"checkpoints run for {verdict.share:.0%} of the time: the newest took {span_text(verdict.took_ms)}",
        (
            f"it wrote {newest.bytes_written:,} bytes, and aligned its barriers for {span_text(newest.aligned_ms)}"
            f"{slowest}",
            *_source_lines(view),
        ),
        remedy,
    )


def _slow_fetch(view: LiveView, verdict: SlowFetch) -> Report:
    furthest = verdict.furthest
    remedy = (
        "partitions that are ahead in time wait for others: that is what `max_drift` asks for"
        if verdict.has_drift
        else "look at the brokers and the network; `properties: {fetch.max.bytes: .., fetch.wait.max.ms: ..}` of the "
        "source change how much is fetched at a time"
    )
    return Report(
        "slow-fetch",
        f"{verdict.source} waits for messages although it is {verdict.lag:,} behind",
        tuple(_source_lines(view)),
        remedy,
        node=verdict.source,
        topic=None if furthest is None else furthest.topic,
        partition=None if furthest is None else furthest.partition,
    )


# ---- evidence --------------------------------------------------------------------------------------------------------


def _task_lines(view: LiveView, task: TaskView) -> tuple[str, ...]:
    return tuple(_lines_of(view, task))


def _lines_of(view: LiveView, task: TaskView) -> Iterator[str]:
    busiest = task.busiest
    count = len(task.subtasks)
    of = f"subtask {busiest.subtask} of {count}" if count > 1 else "its subtask"
    batches = "" if not busiest.batches else f", {busiest.rows / busiest.batches:,.0f} rows a batch"
    yield f"{task.name}: {of} is busy for {busiest.busy:.0%} of its time{batches}"
    for name in task.upstream:
        if (sender := view.task(name)).subtasks:
            yield f"{name}, which sends to it, waits for room for {sender.backpressured:.0%} of its time"
    for name in task.downstream:
        if (receiver := view.task(name)).subtasks:
            yield f"{name}, which reads from it, waits for rows for {receiver.idle:.0%} of its time"
    yield from _spent_lines(task)
    yield from _source_lines(view)
    yield from _checkpoint_lines(view)


def _spent_lines(task: TaskView) -> Iterator[str]:
    """Where the task spends its busy time, node by node."""
    if len(task.nodes) < 2:
        return
    busy_ms = max(1, sum(each.busy_ms for each in task.subtasks))
    own = {
        node.name: sum(each.spent[node.name].own_ms for each in task.subtasks if node.name in each.spent)
        for node in task.nodes
    }
    shares = [f"{name} {min(1.0, ms / busy_ms):.0%}" for name, ms in sorted(own.items(), key=lambda item: -item[1])]
    yield f"of that time: {', '.join(shares)}"


def _source_lines(view: LiveView) -> Iterator[str]:
    for source in view.sources:
        behind = sorted(source.partitions, key=lambda each: -(each.lag or 0))[:PARTITIONS_SHOWN]
        lags = ", ".join(_lag(each) for each in behind if each.lag)
        yield f"{source.source} reads {source.rows_per_s:,.0f} rows/s and is {source.lag:,} messages behind" + (
            f" ({lags})" if lags else ""
        )


def _lag(partition: PartitionView) -> str:
    rate = "" if partition.rows_per_s is None else f" at {partition.rows_per_s:,.0f}/s"
    return f"{partition.topic}-{partition.partition}: {partition.lag:,}{rate}"


def _checkpoint_lines(view: LiveView) -> Iterator[str]:
    share = checkpoint_share(view)
    if share >= NOTABLE:
        yield f"checkpoints run for {share:.0%} of the time: the newest took {span_text(view.checkpoints[0].took_ms)}"
