"""A job's checkpoints: their table, plots of duration and size, the subtasks of one, the slowest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.models import CheckpointInfo
from headrace.ui.views.cluster_view import Row
from headrace.ui.views.formats import NONE, bytes_text, duration_text, time_text
from headrace.ui.views.samples import Points

ROWS_SHOWN = 50
_COMPLETE = frozenset({"completed", "committed"})


def checkpoint_rows(checkpoints: Sequence[CheckpointInfo]) -> tuple[Row, ...]:
    """The newest checkpoints, at most `ROWS_SHOWN`."""
    return tuple(_row(each) for each in checkpoints[:ROWS_SHOWN])


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


def subtask_rows(checkpoint: CheckpointInfo) -> tuple[Row, ...]:
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


def _row(each: CheckpointInfo) -> Row:
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
    found = [
        (int(each.completed_at.timestamp() * 1000), each)
        for each in checkpoints
        if each.status in _COMPLETE and each.completed_at is not None
    ]
    return sorted(found, key=lambda item: item[0])
