"""The values of all metrics, from the documents that users see. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.client.models import JobStatus, NodeStatus
from headrace.coordinator.monitoring import definitions as of
from headrace.coordinator.monitoring.definitions import Metric
from headrace.core.signals import TIME_MAX


@dataclass(frozen=True, slots=True)
class JobValues:
    """A running job. checkpoint_age_s: since its newest complete checkpoint, None: it has none yet; completed, failed:
    numbers of checkpoints since this coordinator began."""

    status: JobStatus
    checkpoint_age_s: float | None = None
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ClusterValues:
    """The workers and slots of a cluster."""

    workers: int
    slots: int
    slots_free: int


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a metric. labels: in the order of the metric's."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def cluster_values(cluster: ClusterValues) -> Iterator[Value]:
    """The values of a cluster."""
    yield Value(of.WORKERS, (), cluster.workers)
    yield Value(of.SLOTS, (), cluster.slots)
    yield Value(of.SLOTS_FREE, (), cluster.slots_free)


def job_values(job: JobValues) -> Iterator[Value]:
    """The values of a job, its nodes, subtasks and partitions."""
    status = job.status
    labels = (status.job_id, status.name)
    yield Value(of.ALARM, labels, float(status.alarm is not None))
    yield Value(of.RUNNING, labels, float(status.state == "RUNNING"))
    yield Value(of.RESTARTS, labels, status.restarts)
    yield Value(of.RUNNING_TIME, labels, status.running_ms / 1000)
    yield Value(of.TRANSACTIONS, labels, len(status.transactions))
    oldest_ms = max((each.age_ms for each in status.transactions), default=0)
    yield Value(of.TRANSACTION_AGE, labels, oldest_ms / 1000)
    if status.state_places is not None:
        for node in status.nodes:
            yield from _state_values(node, labels)
    yield from _checkpoint_values(job, labels)
    tasks: set[str] = set()
    for node in status.nodes:
        yield from _node_values(node, labels)
        if node.task not in tasks:
            tasks.add(node.task)
            yield from _task_values(node, labels)
        yield from _partition_values(node, labels)


def _checkpoint_values(job: JobValues, labels: tuple[str, ...]) -> Iterator[Value]:
    yield Value(of.CHECKPOINTS, (*labels, "completed"), job.completed)
    yield Value(of.CHECKPOINTS, (*labels, "failed"), job.failed)
    running, failed = job.status.checkpoint_running, job.status.checkpoint_failed
    yield Value(of.CHECKPOINT_RUNNING, labels, 0.0 if running is None else (running.duration_ms or 0) / 1000)
    if failed is not None and failed.duration_ms is not None:
        yield Value(of.CHECKPOINT_FAILED, labels, failed.duration_ms / 1000)
    if job.checkpoint_age_s is not None:
        yield Value(of.CHECKPOINT_AGE, labels, job.checkpoint_age_s)
    if (newest := job.status.checkpoint_complete) is not None:
        yield Value(of.CHECKPOINT_DURATION, labels, (newest.duration_ms or 0) / 1000)
        yield Value(of.CHECKPOINT_SIZE, labels, newest.bytes or 0)
        yield Value(of.CHECKPOINT_WRITTEN, labels, newest.bytes_written or 0)
        yield Value(of.CHECKPOINT_ALIGNMENT, labels, (newest.aligned_ms or 0) / 1000)
        for slowest in newest.slowest[:1]:
            yield Value(of.CHECKPOINT_SLOWEST, (*labels, slowest.task, str(slowest.subtask)), slowest.took_ms / 1000)


def _node_values(node: NodeStatus, job: tuple[str, ...]) -> Iterator[Value]:
    for each in node.subtasks:
        labels = (*job, node.node, str(each.subtask))
        for metric, count in (
            (of.ROWS_IN, each.rows_in),
            (of.ROWS_OUT, each.rows_out),
            (of.LATE, each.late),
            (of.BAD, each.bad),
            (of.BYTES_IN, each.bytes_in),
            (of.BYTES_OUT, each.bytes_out),
            (of.STATE_BYTES, each.state_bytes),
            (of.STATE_ROWS, each.state_rows),
        ):
            if count is not None:
                yield Value(metric, labels, count)


def _state_values(node: NodeStatus, job: tuple[str, ...]) -> Iterator[Value]:
    for each in node.states:
        places = (("memory", each.memory_bytes), ("disk", each.disk_bytes), ("storage", each.storage_bytes))
        for place, size in places:
            if size is not None:
                yield Value(of.STATE_PLACES, (*job, node.node, each.state, place), size)


def _task_values(node: NodeStatus, job: tuple[str, ...]) -> Iterator[Value]:
    for each in node.subtasks:
        labels = (*job, node.task, str(each.subtask))
        yield Value(of.BUSY, labels, each.busy_ms / 1000)
        yield Value(of.IDLE, labels, each.idle_ms / 1000)
        yield Value(of.BACKPRESSURED, labels, each.backpressured_ms / 1000)
        yield Value(of.QUEUED, labels, each.rows_queued)
        if each.watermark is not None and each.watermark < TIME_MAX:
            yield Value(of.WATERMARK, labels, each.watermark / 1000)
        if each.watermark_delay_ms is not None:
            yield Value(of.WATERMARK_DELAY, labels, each.watermark_delay_ms / 1000)


def _partition_values(node: NodeStatus, job: tuple[str, ...]) -> Iterator[Value]:
    for each in node.partitions:
        labels = (*job, node.node, each.topic, str(each.partition))
        yield Value(of.POSITION, labels, each.position)
        yield Value(of.PARTITION_IDLE, labels, float(each.idle))
        if each.lag is not None:
            yield Value(of.LAG, labels, each.lag)
        if each.watermark_delay_ms is not None:
            yield Value(of.PARTITION_DELAY, labels, each.watermark_delay_ms / 1000)
