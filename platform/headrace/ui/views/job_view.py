"""A job's own figures: its head, the subtasks of its nodes, and the partitions of its sources. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.client.figure_models import Bottleneck
from headrace.client.models import FINAL_STATES, JobStatus, NodeStatus
from headrace.ui.views.cluster_view import Row
from headrace.ui.views.formats import (
    NONE,
    bytes_text,
    count_text,
    duration_text,
    event_time_text,
    percent_text,
    rate_text,
)

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
