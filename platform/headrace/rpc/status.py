"""The status of a slot's subtasks, as in `Status` messages; `headrace status` shows sums of it."""

from __future__ import annotations

from pydantic import Field

from headrace.checkpoint.manifest import Document
from headrace.rpc.figures import SlotFigures


class SubtaskStatus(Document):
    """The status of one subtask. Ratios (0 to 1) refer to the time since the report before.

    rows_queued      rows that wait in its mailbox
    busy             ratio of time spent on rows and signals
    backpressured    ratio of time spent waiting for room downstream
    watermark        watermark of its gate or source (epoch ms); None before the first
    waits_for_input  number of the input that holds its watermark back; None: it has one input, or is a source's
    ended            its input has ended
    """

    task: str
    subtask: int
    rows_queued: int = 0
    busy: float = 0.0
    backpressured: float = 0.0
    watermark: int | None = None
    waits_for_input: int | None = None
    ended: bool = False


class SourceSubtaskStatus(Document):
    """The status of one subtask of a source; fields as in worker.control.SourceStatus.

    waits_on, since_ms   `waits` there; empty and 0: it waits for nothing
    """

    source: str
    subtask: int
    active_height: int | None
    reached: int | None = None
    has_splits: bool
    watermark: int
    lag: int
    waits_on: str = ""
    since_ms: int = 0


class SlotStatus(Document):
    """The status of a slot. counters: node -> counter (rows_in, rows_out, late, bad, ..) -> total since deployment.

    figures: None if the report before has them, at most `FIGURES_INTERVAL_MS` ago. pressed: it holds so much more state
    than its budget that sources should pause.
    """

    counters: dict[str, dict[str, int]] = Field(default_factory=dict)
    subtasks: tuple[SubtaskStatus, ...] = ()
    sources: tuple[SourceSubtaskStatus, ...] = ()
    figures: SlotFigures | None = None
    pressed: bool = False
