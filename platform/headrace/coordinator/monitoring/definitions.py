"""The registry of metrics: every name, kind, label and unit that headrace exposes. Pure data.

`exposition` renders only what is defined here, `document` writes the page `docs/metrics.md` from it, and tests check
the board and the alert rules against it. Names follow Prometheus: base units, `_total` for counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """counter: only grows while an attempt runs, and begins at 0 with the next one. gauge: goes up and down."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Subject(StrEnum):
    """The thing that a metric is about; it determines the labels."""

    CLUSTER = "the cluster"
    JOB = "a running job"
    NODE = "a node of a job, in one subtask"
    TASK = "a subtask, which runs all nodes of a task in one thread"
    PARTITION = "a partition of a source"


LABELS: dict[Subject, tuple[str, ...]] = {
    Subject.CLUSTER: (),
    Subject.JOB: ("job", "name"),
    Subject.NODE: ("job", "name", "node", "subtask"),
    Subject.TASK: ("job", "name", "task", "subtask"),
    Subject.PARTITION: ("job", "name", "node", "topic", "partition"),
}
"""The labels of each subject. job: its id; name: the pipeline's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. extra: labels beside those of its subject. Its unit is in its name."""

    name: str
    kind: Kind
    subject: Subject
    help: str
    extra: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """All of its labels, in order."""
        return (*LABELS[self.subject], *self.extra)


def _gauge(name: str, subject: Subject, text: str, *extra: str) -> Metric:
    return Metric(f"headrace_{name}", Kind.GAUGE, subject, text, extra)


def _counter(name: str, subject: Subject, text: str, *extra: str) -> Metric:
    return Metric(f"headrace_{name}_total", Kind.COUNTER, subject, text, extra)


WORKERS = _gauge("workers", Subject.CLUSTER, "Workers that are registered")
SLOTS = _gauge("slots", Subject.CLUSTER, "Slots of all workers")
SLOTS_FREE = _gauge("slots_free", Subject.CLUSTER, "Slots that no job uses")

ALARM = _gauge("job_alarm", Subject.JOB, "1: a person should look at the job")
RUNNING = _gauge("job_running", Subject.JOB, "1: the job is RUNNING, 0: it is in another state")
RESTARTS = _counter("job_restarts", Subject.JOB, "Restarts since the coordinator began")
RUNNING_TIME = _gauge("job_running_seconds", Subject.JOB, "How long the subtasks of its attempt have run")
CHECKPOINT_AGE = _gauge("job_checkpoint_age_seconds", Subject.JOB, "Since the newest complete checkpoint")
CHECKPOINTS = _counter(
    "job_checkpoints",
    Subject.JOB,
    "Checkpoints since the coordinator began, by outcome: completed or failed",
    "outcome",
)
CHECKPOINT_DURATION = _gauge(
    "job_checkpoint_duration_seconds", Subject.JOB, "The newest complete checkpoint: from its trigger to its record"
)
CHECKPOINT_SIZE = _gauge(
    "job_checkpoint_size_bytes", Subject.JOB, "The newest complete checkpoint: all state files that it names"
)
CHECKPOINT_WRITTEN = _gauge(
    "job_checkpoint_written_bytes", Subject.JOB, "The newest complete checkpoint: state files written for it"
)
CHECKPOINT_ALIGNMENT = _gauge(
    "job_checkpoint_alignment_seconds", Subject.JOB, "The newest complete checkpoint: longest alignment of a subtask"
)
CHECKPOINT_SLOWEST = _gauge(
    "job_checkpoint_slowest_subtask_seconds",
    Subject.JOB,
    "The newest complete checkpoint: its slowest subtask, from the trigger until its state was in storage; the labels "
    "name it, and change with it",
    "task",
    "subtask",
)
CHECKPOINT_FAILED = _gauge(
    "job_checkpoint_failed_seconds",
    Subject.JOB,
    "How long the last failed checkpoint had run; absent once a later one is complete",
)
CHECKPOINT_RUNNING = _gauge(
    "job_checkpoint_running_seconds", Subject.JOB, "How long the checkpoint in flight has run; 0: there is none"
)
TRANSACTIONS = _gauge("job_transactions_open", Subject.JOB, "Transactions of its sinks that are open")
TRANSACTION_AGE = _gauge(
    "job_transaction_age_seconds", Subject.JOB, "The oldest open transaction, since its first row; 0: there is none"
)

STATE_PLACES = _gauge(
    "state_bytes",
    Subject.JOB,
    "Each state of a node by place: memory of the slots, disk: their local files, storage: the newest complete "
    "checkpoint",
    "node",
    "state",
    "place",
)

ROWS_IN = _counter("node_rows_in", Subject.NODE, "Rows that the node has received; at a source: messages read")
ROWS_OUT = _counter("node_rows_out", Subject.NODE, "Rows that the node has sent on; at a sink: rows written")
LATE = _counter("node_late_rows", Subject.NODE, "Rows that came after their window was closed")
BAD = _counter("node_bad_rows", Subject.NODE, "Rows that could not be decoded, computed or written")
BYTES_IN = _counter(
    "node_received_bytes", Subject.NODE, "Bytes that entered the subtask at the node; absent inside of a task"
)
BYTES_OUT = _counter(
    "node_sent_bytes", Subject.NODE, "Bytes that left the subtask at the node; absent inside of a task"
)
STATE_BYTES = _gauge(
    "node_state_bytes", Subject.NODE, "State of the node in the newest complete checkpoint of this attempt, in files"
)
STATE_ROWS = _gauge("node_state_rows", Subject.NODE, "The same in rows of state")

BUSY = _counter("task_busy_seconds", Subject.TASK, "Time spent on rows and signals")
IDLE = _counter("task_idle_seconds", Subject.TASK, "Time spent waiting for input")
BACKPRESSURED = _counter("task_backpressured_seconds", Subject.TASK, "Time spent waiting for room downstream")
QUEUED = _gauge("task_queued_rows", Subject.TASK, "Rows that wait in its mailbox")
WATERMARK = _gauge(
    "task_watermark_seconds", Subject.TASK, "Its watermark, in seconds since 1970; absent before the first"
)
WATERMARK_DELAY = _gauge(
    "task_watermark_delay_seconds", Subject.TASK, "How far its watermark is behind the clock; absent before the first"
)

LAG = _gauge("partition_lag_messages", Subject.PARTITION, "Messages that are not read yet; absent while not known")
POSITION = _gauge("partition_position", Subject.PARTITION, "Offset of the next message to read")
PARTITION_DELAY = _gauge(
    "partition_watermark_delay_seconds",
    Subject.PARTITION,
    "How far the partition's own watermark is behind the clock; absent before its first row",
)
PARTITION_IDLE = _gauge("partition_idle", Subject.PARTITION, "1: the watermark of the source does not wait for it")

METRICS: tuple[Metric, ...] = (
    WORKERS,
    SLOTS,
    SLOTS_FREE,
    ALARM,
    RUNNING,
    RESTARTS,
    RUNNING_TIME,
    CHECKPOINT_AGE,
    CHECKPOINTS,
    CHECKPOINT_DURATION,
    CHECKPOINT_SIZE,
    CHECKPOINT_WRITTEN,
    CHECKPOINT_ALIGNMENT,
    CHECKPOINT_SLOWEST,
    CHECKPOINT_FAILED,
    CHECKPOINT_RUNNING,
    TRANSACTIONS,
    TRANSACTION_AGE,
    STATE_PLACES,
    ROWS_IN,
    ROWS_OUT,
    LATE,
    BAD,
    BYTES_IN,
    BYTES_OUT,
    STATE_BYTES,
    STATE_ROWS,
    BUSY,
    IDLE,
    BACKPRESSURED,
    QUEUED,
    WATERMARK,
    WATERMARK_DELAY,
    LAG,
    POSITION,
    PARTITION_DELAY,
    PARTITION_IDLE,
)
"""All metrics. Others are not exposed."""
