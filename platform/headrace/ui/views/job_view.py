"""Rows and facts for the page of a job: its head, nodes, state, checkpoints, failures, output and audit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.client.figure_models import Bottleneck
from headrace.client.models import FINAL_STATES, AuditReport, CheckpointInfo, ExceptionInfo, JobStatus, NodeStatus
from headrace.client.output_models import DeadLetterList, TransactionList
from headrace.client.state_models import StateRows
from headrace.ui.views.cluster_view import Row
from headrace.ui.views.formats import (
    NONE,
    bytes_text,
    count_text,
    duration_text,
    event_time_text,
    percent_text,
    rate_text,
    time_text,
)
from headrace.ui.views.samples import Points

SUBTASKS_SHOWN = 15
PARTITIONS_SHOWN = 15


@dataclass(frozen=True, slots=True)
class JobHead:
    """facts: (label, value); notes: (kind, text) of what a user should read.

    kind    `alarm`, `failure`, `message`, `warning` or `waiting`
    """

    name: str
    state: str
    facts: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]
    has_ended: bool


def job_head(status: JobStatus) -> JobHead:
    """The head of a job's page."""
    checkpoint = status.checkpoint
    # the warning about time that stands has the same text
    warned = {each.node for each in status.warnings if each.kind == "standing-time"}
    facts = (
        ("Attempt", str(status.attempt)),
        ("Parallelism", str(status.parallelism)),
        ("Restarts", str(status.restarts)),
        ("Running for", duration_text(status.running_ms)),
        ("Rows/s in", rate_text(status.rows_in_per_s)),
        ("Rows/s out", rate_text(status.rows_out_per_s)),
        ("Checkpoint", NONE if checkpoint is None else f"#{checkpoint.epoch}"),
        ("State", NONE if checkpoint is None else bytes_text(checkpoint.bytes)),
    )
    texts = (
        ("alarm", status.alarm),
        ("failure", status.failure),
        ("message", status.message),
        *(("warning", each.text) for each in status.warnings),
        *(("waiting", f"{each.node} waits for {each.on}") for each in status.waiting if each.node not in warned),
    )
    return JobHead(
        name=status.name,
        state=status.state,
        facts=facts,
        notes=tuple((kind, text) for kind, text in texts if text),
        has_ended=status.state in FINAL_STATES,
    )


def busiest_node(status: JobStatus) -> str | None:
    """The busiest node: the one whose subtasks a user wants to see first. None: no node has run."""
    busiest = max(status.nodes, key=lambda node: node.busy, default=None)
    return None if busiest is None else busiest.node


def node_facts(node: NodeStatus) -> tuple[tuple[str, str], ...]:
    """The figures of one node."""
    return (
        ("Rows in", count_text(node.rows_in)),
        ("Rows out", count_text(node.rows_out)),
        ("Late", count_text(node.late)),
        ("Bad", count_text(node.bad)),
        ("Watermark", event_time_text(node.watermark)),
        ("Behind the clock", duration_text(node.watermark_delay_ms)),
        ("State", bytes_text(node.state_bytes)),
        ("Lag", count_text(node.lag)),
    )


def subtask_rows(node: NodeStatus) -> tuple[Row, ...]:
    """The subtasks of a node, the busiest first, at most `SUBTASKS_SHOWN`."""
    chosen = sorted(node.subtasks, key=lambda each: (-each.busy, each.subtask))[:SUBTASKS_SHOWN]
    return tuple(
        {
            "subtask": each.subtask,
            "worker": each.worker or NONE,
            "busy": percent_text(each.busy),
            "back": percent_text(each.backpressured),
            "rate": rate_text(max(each.rows_in_per_s, each.rows_out_per_s)),
            "bytes": bytes_text(_larger(each.bytes_in, each.bytes_out)),
            "late": count_text(each.late),
            "bad": count_text(each.bad),
            "state": bytes_text(each.state_bytes),
            "queued": count_text(each.rows_queued),
            "delay": duration_text(each.watermark_delay_ms),
        }
        for each in chosen
    )


def _larger(received: int | None, sent: int | None) -> int | None:
    """The bytes that entered or left a subtask at a node; None: its rows stay inside of the task."""
    return max((each for each in (received, sent) if each is not None), default=None)


def partition_rows(node: NodeStatus) -> tuple[Row, ...]:
    """The partitions of a source that are furthest behind, at most `PARTITIONS_SHOWN`."""
    chosen = sorted(node.partitions, key=lambda each: (-(each.lag or 0), each.topic, each.partition))
    return tuple(
        {
            "partition": f"{each.topic}-{each.partition}",
            "subtask": each.subtask,
            "position": count_text(each.position),
            "lag": count_text(each.lag),
            "delay": "idle" if each.idle else duration_text(each.watermark_delay_ms),
        }
        for each in chosen[:PARTITIONS_SHOWN]
    )


def verdict_text(slow: Bottleneck) -> str:
    """The verdict about a running job with its evidence and remedy, a line each; empty: there is none yet."""
    if slow.kind in {"not-running", "too-early"}:
        return ""
    remedy = () if slow.remedy is None else (f"Remedy: {slow.remedy}",)
    return "\n".join((slow.verdict, *slow.evidence, *remedy))


CHECKPOINTS_SHOWN = 50
_COMPLETE = frozenset({"completed", "committed"})


def checkpoint_rows(checkpoints: Sequence[CheckpointInfo]) -> tuple[Row, ...]:
    """The newest checkpoints, at most `CHECKPOINTS_SHOWN`."""
    return tuple(_checkpoint_row(each) for each in checkpoints[:CHECKPOINTS_SHOWN])


def durations(checkpoints: Sequence[CheckpointInfo]) -> dict[str, Points]:
    """Seconds of the complete checkpoints, and of their longest alignment."""
    complete = _complete(checkpoints)
    aligned = [(at, each.aligned_ms) for at, each in complete if each.aligned_ms is not None]
    lines = {"whole": [(at, (each.duration_ms or 0) / 1000) for at, each in complete]}
    return lines | ({"longest alignment": [(at, ms / 1000) for at, ms in aligned]} if aligned else {})


def sizes(checkpoints: Sequence[CheckpointInfo]) -> dict[str, Points]:
    """Kilobytes of the complete checkpoints: of all their files, and of those that were written for them."""
    complete = _complete(checkpoints)
    written = [(at, each.bytes_written) for at, each in complete if each.bytes_written is not None]
    lines = {"all files": [(at, (each.bytes or 0) / 1024) for at, each in complete]}
    return lines | ({"written": [(at, size / 1024) for at, size in written]} if written else {})


def default_epoch(checkpoints: Sequence[CheckpointInfo]) -> int | None:
    """The newest checkpoint whose subtasks are known; None: there is none."""
    return next((each.epoch for each in checkpoints if each.slowest), None)


def checkpoint_subtask_rows(checkpoint: CheckpointInfo) -> tuple[Row, ...]:
    """The slowest subtasks of a checkpoint, the slowest first."""
    return tuple(
        {
            "id": f"{each.task}/{each.subtask}",
            "task": each.task,
            "subtask": each.subtask,
            "worker": each.worker,
            "took": duration_text(each.took_ms),
            "aligned": duration_text(each.aligned_ms),
            "bytes": bytes_text(each.bytes),
        }
        for each in checkpoint.slowest
    )


def _checkpoint_row(each: CheckpointInfo) -> Row:
    slowest = each.slowest[0] if each.slowest else None
    return {
        "epoch": each.epoch,
        "kind": each.kind,
        "status": each.status,
        "at": time_text(each.completed_at or each.started_at),
        "took": duration_text(each.duration_ms),
        "size": bytes_text(each.bytes),
        "aligned": duration_text(each.aligned_ms),
        "slowest": NONE if slowest is None else f"{slowest.task} {slowest.subtask}: {duration_text(slowest.took_ms)}",
        "path": each.path or "",
        "failure": each.failure or "",
    }


def _complete(checkpoints: Sequence[CheckpointInfo]) -> list[tuple[int, CheckpointInfo]]:
    """(epoch ms, checkpoint), oldest first."""
    complete = [
        (int(each.completed_at.timestamp() * 1000), each)
        for each in checkpoints
        if each.status in _COMPLETE and each.completed_at is not None
    ]
    return sorted(complete, key=lambda item: item[0])


FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ExceptionView:
    """One failure. where: (label, value), among them the record's place; trace: of the user's code."""

    at: str
    message: str
    where: tuple[tuple[str, str], ...]
    remedy: str | None
    trace: str | None


def exception_views(exceptions: Sequence[ExceptionInfo]) -> tuple[ExceptionView, ...]:
    """The newest failures, at most `FAILURES_SHOWN`."""
    return tuple(_failure(each) for each in exceptions[:FAILURES_SHOWN])


def _failure(each: ExceptionInfo) -> ExceptionView:
    subtask = None if each.subtask is None else str(each.subtask)
    where = (
        ("Record", each.place),
        ("Node", each.node),
        ("Subtask", subtask),
        ("Worker", each.worker),
        ("Attempt", str(each.attempt)),
    )
    return ExceptionView(
        at=f"{time_text(each.at)} UTC",
        message=each.message,
        where=tuple((label, value) for label, value in where if value is not None),
        remedy=each.remedy,
        trace=each.trace,
    )


LETTERS_SHOWN = 100
VALUE_LENGTH = 200


def open_transaction_rows(status: JobStatus) -> tuple[Row, ...]:
    """The open transactions of a running job, as its slots report them, the oldest first."""
    return tuple(
        {
            "name": each.name,
            "sink": each.sink,
            "subtask": each.subtask,
            "age": duration_text(each.age_ms),
            "state": "prepared" if each.prepared else "open",
        }
        for each in status.transactions
    )


def transaction_rows(found: TransactionList) -> tuple[Row, ...]:
    """Transactions as their external system has them, with the action that is safe."""
    return tuple(
        {
            "name": each.name,
            "sink": each.sink,
            "state": each.state,
            "age": duration_text(each.age_ms),
            "safe": each.safe,
            "why": each.why,
            "holds": ", ".join(each.holds_back) or NONE,
        }
        for each in found.transactions
    )


def letter_rows(found: DeadLetterList) -> tuple[Row, ...]:
    """Dead letters, the newest first."""
    return tuple(
        {
            "id": f"{each.topic}-{each.partition}-{each.offset}",
            "node": each.node,
            "at": time_text(each.at),
            "origin": each.origin or NONE,
            "reason": each.reason or NONE,
            "value": (each.value or "")[:VALUE_LENGTH],
            "bytes": bytes_text(each.bytes),
        }
        for each in reversed(found.letters)
    )


def audit_rows(report: AuditReport) -> tuple[Row, ...]:
    """The verdict of each sink."""
    return tuple(
        {
            "sink": each.sink,
            "verdict": each.verdict,
            "rows": count_text(each.rows),
            "expected": count_text(each.expected_rows),
            "epoch": NONE if each.epoch is None else each.epoch,
            "reasons": "; ".join(each.reasons) or NONE,
        }
        for each in report.sinks
    )


STORED_ROWS_SHOWN = 100
STORED_COLUMNS_SHOWN, STORED_COLUMNS_ON_PHONES = 12, 3
STORED_LENGTH = 60
"""Most characters of a value of state."""


def state_rows(status: JobStatus) -> tuple[Row, ...]:
    """Each state of a running job by place, in the order of its nodes."""
    return tuple(
        {
            "id": f"{node.node}/{each.state}",
            "node": node.node,
            "state": each.state,
            "rows": count_text(each.rows),
            "memory": bytes_text(each.memory_bytes),
            "disk": bytes_text(each.disk_bytes),
            "storage": bytes_text(each.storage_bytes),
            "growth": _growth_text(each.growth_bytes_per_hour),
            "dropped": "by time" if each.dropped else "never",
        }
        for node in status.nodes
        for each in node.states
    )


def _growth_text(growth: int | None) -> str:
    if not growth:
        return bytes_text(growth)
    return f"{'+' if growth > 0 else '-'}{bytes_text(abs(growth))}"


def readable_states(status: JobStatus) -> dict[str, str]:
    """What can be read of the newest checkpoint: the results of each step (`NODE`), and each state as it is kept
    (`NODE/STATE`), with texts to choose by."""
    found: dict[str, str] = {}
    for node in status.nodes:
        kept = [each.state for each in node.states if each.storage_bytes is not None]
        found |= {node.node: node.node} if kept else {}
        found |= {f"{node.node}/{state}": f"{node.node}: {state}, as it is kept" for state in kept}
    return found


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of state. columns: (key in `rows`, label); the keys are numbers, because names of columns are a user's."""

    text: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def stored_rows(found: StateRows) -> StoredRows:
    """Rows of the state of a node, with at most `STORED_COLUMNS_SHOWN` columns."""
    names = list(found.columns)[:STORED_COLUMNS_SHOWN]
    text = f"{len(found.rows)} rows of checkpoint {found.epoch}, {duration_text(found.age_ms)} old"
    text += "; there are more: give a key" if found.more else ""
    hidden = len(found.columns) - len(names)
    text += f"; {hidden} more columns: `headrace state read`" if hidden else ""
    return StoredRows(
        text=text,
        columns=tuple((f"c{number}", name) for number, name in enumerate(names)),
        rows=tuple(
            {"id": place, **{f"c{number}": _stored_text(row.get(name)) for number, name in enumerate(names)}}
            for place, row in enumerate(found.rows)
        ),
    )


def _stored_text(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= STORED_LENGTH else f"{text[:STORED_LENGTH]}.."
