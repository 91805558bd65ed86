"""The answers of the REST API (`/v1`): the documents that a coordinator returns.

Data only: coordinator, HTTP client, command line and Python API share the models and their JSON. Clients ignore unknown
fields, so that they accept the answers of a newer coordinator. Times are UTC, in JSON as `2026-01-31T09:30:00.123Z`,
except event time (`watermark`, `lag`), which is epoch milliseconds as everywhere. `client.requests` has the requests.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer

from headrace.core.errors import Domain

LOG_LINES_MAX = 100_000
"""Most lines of one request for logs."""
FINAL_STATES = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""Final states of a job. A SUSPENDED one continues when its coordinator is back."""


class Answer(BaseModel):
    """Base of the answers of a coordinator."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def _time_text(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[datetime, PlainSerializer(_time_text, return_type=str, when_used="json")]
"""A time, with milliseconds in JSON."""


def moment(ms: int) -> datetime:
    """Epoch milliseconds as a time of the models."""
    return datetime.fromtimestamp(ms / 1000, UTC)


class Submitted(Answer):
    """A job was accepted."""

    job_id: str


EndedBy = Literal["input", "stop", "cancel", "failure"]
"""Why a job ended: all of its input is read; it was stopped, with a last checkpoint; canceled; or it failed."""


class JobSummary(Answer):
    """A job in a list. ended_by: None: it has not ended, or that is not known."""

    job_id: str
    name: str
    state: str
    started_at: Moment | None = None
    ended_at: Moment | None = None
    ended_by: EndedBy | None = None


class JobList(Answer):
    """Jobs, newest first: those that run, and the history."""

    jobs: tuple[JobSummary, ...]


class PartitionState(Answer):
    """A partition of a source.

    position   offset of the next message to read
    lag        messages that it is behind; None: not known
    watermark  its own (epoch ms), None before its first row; watermark_delay_ms: how far that is behind the clock
    idle       the watermark does not wait for it
    """

    topic: str
    partition: int
    subtask: int
    position: int
    lag: int | None = None
    watermark: int | None = None
    watermark_delay_ms: int | None = None
    idle: bool = False


class SubtaskState(Answer):
    """One subtask of a node's task. Ratios are of the time since the report before, 0 to 1; busy, idle and
    backpressured add up to 1.

    rows_in, .., bytes_out   of this attempt; bytes: None where rows stay inside of the task
    rows_in_per_s, rows_out_per_s   over the last 10 s
    rows_in_per_s_attempt, rows_out_per_s_attempt   since the attempt's subtasks run, without its start
    lag                      of a source: over its partitions
    busy_ms, idle_ms, backpressured_ms   of the time since the attempt's subtasks run
    state_bytes, state_rows  as in NodeStatus; None: not known for each subtask
    """

    subtask: int
    worker: str | None = None
    slot: str | None = None
    rows_queued: int = 0
    busy: float = 0.0
    backpressured: float = 0.0
    watermark: int | None = None
    ended: bool = False
    idle: float = 0.0
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    bad: int = 0
    bytes_in: int | None = None
    bytes_out: int | None = None
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    lag: int | None = None
    watermark_delay_ms: int | None = None
    busy_ms: int = 0
    idle_ms: int = 0
    backpressured_ms: int = 0
    state_bytes: int | None = None
    state_rows: int | None = None
    rows_in_per_s_attempt: float = 0.0
    rows_out_per_s_attempt: float = 0.0


class StateOfNode(Answer):
    """One state of a node, by place.

    memory_bytes, disk_bytes   in memory and local files of the slots, as of their last reports
    storage_bytes, rows        of the files of the newest complete checkpoint; None: it has no such state
    growth_bytes_per_hour      of memory and local files, from the last hour; None: not known yet
    dropped                    something drops its rows: it does not grow with the keys for ever
    """

    state: str
    memory_bytes: int = 0
    disk_bytes: int = 0
    storage_bytes: int | None = None
    rows: int | None = None
    growth_bytes_per_hour: int | None = None
    dropped: bool = True


class NodeStatus(Answer):
    """A node, summed up over its subtasks. Rows are counted over the job's life; rows that were processed again after a
    failure count once.

    kind           source, verb of the step, or sink
    lag            messages that a source has not read yet; None: not known
    watermark      lowest of its subtasks (epoch ms), None before the first
    busy, backpressured   highest of its subtasks, 0 to 1; idle: lowest of its subtasks
    task           name of the task that runs it: nodes of one task share a thread, and its times
    bytes_in, bytes_out   of this attempt; None where rows stay inside of the task
    rows_in_per_s, rows_out_per_s   over the last 10 s
    rows_in_per_s_attempt, rows_out_per_s_attempt   since the attempt's subtasks run, without its start
    watermark_delay_ms    how far the watermark is behind the clock; None: not known, or at its end
    state_bytes, state_rows   of the files of the newest complete checkpoint; None: it has no state there
    partitions     of a source: those of each subtask that are furthest behind; partitions_total: how many there are
    inputs         the nodes whose rows it receives; a coordinator of an earlier version does not report them
    states         its states by place
    """

    node: str
    kind: str
    parallelism: int
    rows_in: int = 0
    rows_out: int = 0
    late: int = 0
    bad: int = 0
    lag: int | None = None
    watermark: int | None = None
    backpressured: float = 0.0
    busy: float = 0.0
    subtasks: tuple[SubtaskState, ...] = ()
    task: str = ""
    idle: float = 0.0
    bytes_in: int | None = None
    bytes_out: int | None = None
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    rows_in_per_s_attempt: float = 0.0
    rows_out_per_s_attempt: float = 0.0
    watermark_delay_ms: int | None = None
    state_bytes: int | None = None
    state_rows: int | None = None
    partitions: tuple[PartitionState, ...] = ()
    partitions_total: int = 0
    inputs: tuple[str, ...] = ()
    states: tuple[StateOfNode, ...] = ()


class CompletedCheckpoint(Answer):
    """The newest complete checkpoint of a job. `path` can be given to `--from-savepoint`."""

    epoch: int
    completed_at: Moment
    path: str
    bytes: int


class TransactionState(Answer):
    """A transaction of a sink that is open. age_ms: since its first row; prepared: it waits for its commit."""

    sink: str
    subtask: int
    name: str
    age_ms: int
    prepared: bool = False


class CheckpointSubtask(Answer):
    """One subtask's part in a checkpoint.

    took_ms     from the checkpoint's trigger in its slot until its state was in storage
    aligned_ms  between the first and the last barrier at its input
    bytes       written for it
    """

    task: str
    subtask: int
    worker: str
    took_ms: int
    aligned_ms: int = 0
    bytes: int = 0


class DataWarningState(Answer):
    """Data of a job that looks wrong. node: whose; since: when that was seen, or, of a partition that holds time back,
    when its last row was, or, of time that stands still, when it moved last.

    kind   input, null-column, times-in-1970, times-in-future, late-rows, quiet-partition, standing-time,
           state-over-budget, filter-passes-nothing or growing-state
    """

    node: str
    kind: str
    text: str
    since: Moment


class WaitingState(Answer):
    """A source that reads nothing until its format knows a schema, or a step with open windows whose event time has not
    moved for 30 s. on: what it waits for, as text; since: when it began to wait; when its time moved last, or its first
    open window got a row, if that was later."""

    node: str
    on: str
    since: Moment


class StatePlaces(Answer):
    """The bytes of a job's state by place: in the memory of its slots, in their local files, and in the files of its
    newest complete checkpoint (None: it has none)."""

    memory_bytes: int = 0
    disk_bytes: int = 0
    storage_bytes: int | None = None


class JobStatus(Answer):
    """The status of a job. `failure`: the failure that ended it, or after which it restarts; `message`: what it waits
    for, as text; `alarm`: a condition that an operator should check before the job fails; `opened`: its sources and
    sinks are open, or it has run.

    running_ms   how long the attempt's subtasks have run
    rows_in_per_s, ..   of all sources and sinks, as in NodeStatus
    transactions   open ones as of the last reports, the oldest first, a bounded number of each subtask
    ended_by     as in JobSummary
    checkpoint_complete  the newest complete checkpoint with its figures, if this coordinator has triggered it
    checkpoint_running   the checkpoint in flight; checkpoint_failed: the last that failed, if none was complete since
    warnings     data of this attempt that looks wrong, the oldest first
    waiting      while it runs: sources that wait for a schema, steps whose event time stands still
    state_places where its state lies, as of the last reports; None: it does not run
    """

    job_id: str
    name: str
    state: str
    attempt: int
    parallelism: int
    opened: bool = False
    nodes: tuple[NodeStatus, ...] = ()
    checkpoint: CompletedCheckpoint | None = None
    failure: str | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    restarts: int = 0
    message: str | None = None
    alarm: str | None = None
    savepoint: str | None = None
    running_ms: int = 0
    rows_in_per_s: float = 0.0
    rows_out_per_s: float = 0.0
    rows_in_per_s_attempt: float = 0.0
    rows_out_per_s_attempt: float = 0.0
    transactions: tuple[TransactionState, ...] = ()
    ended_by: EndedBy | None = None
    checkpoint_complete: CheckpointInfo | None = None
    checkpoint_running: CheckpointInfo | None = None
    checkpoint_failed: CheckpointInfo | None = None
    warnings: tuple[DataWarningState, ...] = ()
    waiting: tuple[WaitingState, ...] = ()
    state_places: StatePlaces | None = None


class CheckpointInfo(Answer):
    """One checkpoint of a job's history.

    kind         checkpoint or savepoint
    status       committed: complete, and its output is visible
    duration_ms  from its trigger until it was complete, or failed; of one in progress: until now
    bytes        of all state files that it names; bytes_written: of those that were written for it
    aligned_ms   the longest alignment of a subtask
    slots_acked, slots   how many slots have acknowledged it, of how many
    slowest      its slowest subtasks, the slowest first; a bounded number of them
    """

    epoch: int
    attempt: int
    kind: Literal["checkpoint", "savepoint"] = "checkpoint"
    status: Literal["in-progress", "completed", "committed", "failed"]
    started_at: Moment | None = None
    completed_at: Moment | None = None
    duration_ms: int | None = None
    bytes: int | None = None
    path: str | None = None
    failure: str | None = None
    bytes_written: int | None = None
    aligned_ms: int | None = None
    slots_acked: int | None = None
    slots: int | None = None
    slowest: tuple[CheckpointSubtask, ...] = ()


class CheckpointList(Answer):
    """Checkpoints of a job, newest first; a bounded number of them."""

    checkpoints: tuple[CheckpointInfo, ...]


class ExceptionInfo(Answer):
    """A failure of a job. `place`: topic, partition and offset, where known; `unreachable`: the peer did not answer."""

    at: Moment
    attempt: int
    message: str
    domain: Domain
    remedy: str | None = None
    node: str | None = None
    subtask: int | None = None
    worker: str | None = None
    place: str | None = None
    trace: str | None = None
    unreachable: bool = False


class ExceptionList(Answer):
    """Failures of a job, newest first; a bounded number of them."""

    exceptions: tuple[ExceptionInfo, ...]


class LogLines(Answer):
    """Lines that a job's processes logged, oldest first. position: sent as `after`, it asks for those behind them."""

    lines: tuple[str, ...]
    position: str = ""


class ProblemBody(Answer):
    """One problem of a pipeline. `path`: dotted, as in `steps.hourly.filter`."""

    message: str
    path: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None
    remedy: str | None = None


class ErrorBody(Answer):
    """The body of the answer to a failed request. `domain`: who can fix it (core.errors.Domain)."""

    message: str
    domain: Domain
    remedy: str | None = None
    retry: bool = False
    problems: tuple[ProblemBody, ...] = ()


class SinkAudit(Answer):
    """The result of reading a sink's output back. expected_rows: number of rows committed by checkpoint `epoch`."""

    sink: str
    verdict: Literal["proven", "differs", "unprovable"]
    rows: int
    expected_rows: int
    epoch: int | None = None
    reasons: tuple[str, ...] = ()


class AuditReport(Answer):
    """All sinks of a job that deliver exactly once."""

    job_id: str
    sinks: tuple[SinkAudit, ...]


class Trigger(Answer):
    """A long operation: requested once, then polled until its status is final.

    path     of the savepoint or last checkpoint, if the operation ends with one
    progress  of the operation, as text, or what its user should know about its end; audit: the result of an audit
    error    why it failed
    """

    trigger_id: str
    job_id: str
    kind: Literal["savepoint", "checkpoint", "stop", "cancel", "rescale", "audit"]
    status: Literal["in-progress", "completed", "failed"] = "in-progress"
    path: str | None = None
    error: ErrorBody | None = None
    progress: str | None = None
    audit: AuditReport | None = None
