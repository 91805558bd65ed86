"""A job's status as text: its lines, and the tables of its nodes and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import typer

from headrace.cli.arguments import print_table
from headrace.cli.jobs.jobs import state_text, time_text
from headrace.client.models import (
    CheckpointInfo,
    ExceptionInfo,
    JobStatus,
    NodeStatus,
    PartitionState,
    StateOfNode,
    SubtaskState,
)
from headrace.core.signals import TIME_MIN
from headrace.core.text.plural import bytes_text, count_text, plural
from headrace.core.text.span_text import span_text
from headrace.local.runs.progress import watermark_text

HEAD = (
    *("NODE", "KIND", "SUBTASKS", "IN", "IN/S", "OUT", "OUT/S", "LATE", "BAD", "LAG"),
    *("WATERMARK", "DELAY", "BUSY", "IDLE", "BACKPRESSURE"),
)
WIDE_HEAD = ("BYTES IN", "BYTES OUT", "STATE")
PARTITIONS_HEAD = ("SOURCE", "TOPIC", "PARTITION", "SUBTASK", "POSITION", "LAG", "WATERMARK", "DELAY", "")
STATES_HEAD = ("STATE OF", "STATE", "ROWS", "MEMORY", "DISK", "STORAGE", "GROWTH/H")
SUBTASKS_SHOWN = 32
"""More subtasks than these are only shown on demand."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The parts of a status that are printed on demand."""

    subtasks: bool = False
    partitions: bool = False
    wide: bool = False


def print_status(found: JobStatus, failures: Iterable[ExceptionInfo], shown: Shown) -> None:
    """Prints a job's status."""
    for line in _lines(found):
        typer.echo(line)
    if found.nodes:
        every = shown.subtasks or sum(len(node.subtasks) for node in found.nodes) <= SUBTASKS_SHOWN
        head = (*HEAD, *WIDE_HEAD) if shown.wide else HEAD
        rows = [row[: len(head)] for node in found.nodes for row in _rows(node, subtasks=every)]
        print_table(head, rows, left=2)
    if found.state_places is not None and any(node.states for node in found.nodes):
        states = [_state(node, each) for node in found.nodes for each in node.states]
        print_table(STATES_HEAD, states, left=2)
    if shown.partitions:
        print_table(PARTITIONS_HEAD, [row for node in found.nodes for row in _partitions(node)], left=2)
    for failure in failures:
        typer.echo(_failure(failure))


def _lines(found: JobStatus) -> Iterator[str]:
    yield f"{found.job_id}  {found.name}  {typer.style(state_text(found), bold=True)}"
    yield f"  attempt {found.attempt}, parallelism {found.parallelism}, started {time_text(found.started_at)}" + (
        f", ended {time_text(found.ended_at)}" if found.ended_at else ""
    )
    if found.running_ms:
        yield (
            f"  in {_rate(found.rows_in_per_s)}, out {_rate(found.rows_out_per_s)}; since it runs "
            f"({span_text(found.running_ms)}) in {_rate(found.rows_in_per_s_attempt)}, "
            f"out {_rate(found.rows_out_per_s_attempt)}"
        )
    if found.message:
        yield f"  {found.message}"
    if found.alarm:
        yield f"  {typer.style('alarm', bold=True)}: {found.alarm}"
    for each in found.warnings:
        yield f"  {typer.style('warning', bold=True)}: {each.text}"
    for step in found.waiting:
        yield f"  {typer.style('waiting', bold=True)}: {step.node} since {time_text(step.since)} for {step.on}"
    yield from _checkpoint_lines(found)
    if found.transactions:
        oldest = found.transactions[0]
        yield (
            f"  {plural(len(found.transactions), 'transaction')} open, the oldest for {span_text(oldest.age_ms)} "
            f"(sink {oldest.sink}, subtask {oldest.subtask})"
        )
    if (places := found.state_places) is not None and places.disk_bytes:
        yield f"  state: {bytes_text(places.memory_bytes)} in memory, {bytes_text(places.disk_bytes)} in local files"
    if found.savepoint:
        yield f"  savepoint {found.savepoint}"
    if found.failure:
        yield f"  {'failed' if found.state == 'FAILED' else 'last failure'}: {found.failure}"
    if found.restarts:
        yield f"  {plural(found.restarts, 'restart')}"


def _checkpoint_lines(found: JobStatus) -> Iterator[str]:
    if found.checkpoint is None:
        yield "  no checkpoint yet"
    else:
        last = found.checkpoint
        yield f"  checkpoint {last.epoch} at {time_text(last.completed_at)}, {last.bytes:,} bytes, {last.path}"
    if (complete := found.checkpoint_complete) is not None and complete.slowest:
        yield (
            f"  checkpoint {complete.epoch} took {span_text(complete.duration_ms or 0)}, slowest subtask "
            f"{slowest_text(complete)}, longest alignment {span_text(complete.aligned_ms or 0)}"
        )
    if (running := found.checkpoint_running) is not None:
        yield (
            f"  checkpoint {running.epoch} runs for {span_text(running.duration_ms or 0)}: "
            f"{running.slots_acked or 0} of {running.slots or 0} slots are done"
        )
    if (failed := found.checkpoint_failed) is not None:
        took = "" if failed.duration_ms is None else f" after {span_text(failed.duration_ms)}"
        yield f"  checkpoint {failed.epoch} failed{took}: {failed.failure or 'for an unknown reason'}"


def _rate(per_second: float) -> str:
    return f"{count_text(per_second)} rows/s"


def _rows(node: NodeStatus, *, subtasks: bool) -> Iterator[tuple[str, ...]]:
    yield (node.node, node.kind, str(node.parallelism), *_figures(node))
    for each in node.subtasks if subtasks else ():
        place = f"  {each.subtask}" + (f" on {each.worker}" if each.worker else "")
        ends = "ended" if each.ended else f"{each.rows_queued:,} queued" if each.rows_queued else ""
        yield (place, ends, "", *_figures(each))


def _figures(of: NodeStatus | SubtaskState) -> tuple[str, ...]:
    return (
        f"{of.rows_in:,}",
        count_text(of.rows_in_per_s),
        f"{of.rows_out:,}",
        count_text(of.rows_out_per_s),
        f"{of.late:,}",
        f"{of.bad:,}",
        _count(of.lag),
        _watermark(of.watermark),
        _delay(of.watermark_delay_ms),
        f"{of.busy:.0%}",
        f"{of.idle:.0%}",
        f"{of.backpressured:.0%}",
        _size(of.bytes_in),
        _size(of.bytes_out),
        _size(of.state_bytes),
    )


def _partitions(node: NodeStatus) -> Iterator[tuple[str, ...]]:
    for each in node.partitions:
        yield _partition(node, each)
    left_out = node.partitions_total - len(node.partitions)
    if left_out > 0:
        yield (node.node, f"and {plural(left_out, 'partition')} that are less behind", *[""] * 7)


def _state(node: NodeStatus, each: StateOfNode) -> tuple[str, ...]:
    growth = each.growth_bytes_per_hour
    sign = "" if growth is None or not growth else "+" if growth > 0 else "-"
    return (
        node.node,
        each.state,
        _count(each.rows),
        bytes_text(each.memory_bytes),
        bytes_text(each.disk_bytes),
        _size(each.storage_bytes),
        sign + _size(None if growth is None else abs(growth)),
    )


def _partition(node: NodeStatus, each: PartitionState) -> tuple[str, ...]:
    return (
        node.node,
        each.topic,
        str(each.partition),
        str(each.subtask),
        f"{each.position:,}",
        _count(each.lag),
        _watermark(each.watermark),
        _delay(each.watermark_delay_ms),
        "idle" if each.idle else "",
    )


def _failure(failure: ExceptionInfo) -> str:
    where = [
        f"{word} {value}"
        for word, value in (("node", failure.node), ("subtask", failure.subtask), ("worker", failure.worker))
        if value is not None
    ]
    place = ", ".join([f"attempt {failure.attempt}", *where, *([failure.place] if failure.place else [])])
    return f"{time_text(failure.at)}  {place}\n  {failure.message}" + (
        f"\n  {failure.remedy}" if failure.remedy else ""
    )


def slowest_text(checkpoint: CheckpointInfo) -> str:
    """The slowest subtask of a checkpoint, `window-0: 1.2 s`; `-` if it is not known."""
    if not checkpoint.slowest:
        return "-"
    slowest = checkpoint.slowest[0]
    return f"{slowest.task}-{slowest.subtask}: {span_text(slowest.took_ms)}"


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _size(size: int | None) -> str:
    return "-" if size is None else bytes_text(size)


def _delay(delay_ms: int | None) -> str:
    return "-" if delay_ms is None else span_text(delay_ms)


def _watermark(watermark: int | None) -> str:
    return watermark_text(TIME_MIN if watermark is None else watermark)
