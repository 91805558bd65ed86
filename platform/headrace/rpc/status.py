"""How a slot's subtasks stand: what `Status` messages carry, and `headrace status` shows summed up."""

from __future__ import annotations

from pydantic import Field

from headrace.checkpoint.manifest import Document


class SubtaskStatus(Document):
    """One subtask. Ratios are of the time since the report before, 0 to 1.

    rows_queued    rows that wait in its mailbox
    busy           working on rows and signals
    backpressured  waiting for room further down
    watermark      the time of its gate (epoch ms), None before the first
    """

    task: str
    subtask: int
    rows_queued: int = 0
    busy: float = 0.0
    backpressured: float = 0.0
    watermark: int | None = None
    ended: bool = False


class SourceSubtaskStatus(Document):
    """One subtask of a source; as worker.control.SourceStatus."""

    source: str
    subtask: int
    active_height: int | None
    has_splits: bool
    watermark: int
    lag: int


class SlotStatus(Document):
    """All subtasks of a slot. counters: node -> counter (rows_in, rows_out, late, bad, ..) -> total since deploy."""

    counters: dict[str, dict[str, int]] = Field(default_factory=dict)
    subtasks: tuple[SubtaskStatus, ...] = ()
    sources: tuple[SourceSubtaskStatus, ...] = ()
