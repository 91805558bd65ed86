"""The operator contract: live half, config half, collector, and the policies for failing rows.

    config (frozen) --open()--> Operator:  restore?  on_batch*  (on_watermark, snapshot interleaved)  close

The chain calls `on_watermark` before it passes a watermark on; the operator emits the results that the watermark
completes, and returns the watermark for operators downstream (the same, or less: a hold).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

    from headrace.state.snapshot import RestoredStates, StateSnapshot

LATE = "late"
"""Side output of rows that are late for all their windows."""
BAD = "bad"
"""Side output of rows that failed; input columns and `reason`."""
REASON = "reason"


class OnError(StrEnum):
    """The policy for a row that fails in a step."""

    FAIL = "fail"
    SKIP = "skip"
    DIVERT = "divert"


class Collector(Protocol):
    """Receives an operator's output."""

    def emit(self, batch: pl.DataFrame) -> None:
        """Sends rows to the operator's main output, in order."""
        ...

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Sends rows to the side output with this name (dropped without a reader)."""
        ...

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters: `late`, `partly_late`, `bad`, `skipped`."""
        ...


class Operator(Protocol):
    """The live half of a node. Used by one thread at a time."""

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Processes a batch of at least one row, with hidden columns."""
        ...

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Handles the watermark (epoch ms): emits completed results, and returns the watermark to pass on."""
        ...

    def snapshot(self) -> Sequence[StateSnapshot]:
        """The whole state at this moment, as references to immutable frames, so that it is fast. Has no side effect on
        results. The same chunk id in a later snapshot means the same rows."""
        ...

    def restore(self, states: RestoredStates) -> None:
        """Restores the state from snapshots, before the first batch: this subtask's share of the rows of all subtasks.

        Raises UserError if a state does not fit this step.
        """
        ...

    def close(self) -> None:
        """Releases all resources, at the end or after a failure. Idempotent."""
        ...


class OperatorConfig(Protocol):
    """The frozen half of a node: plain data only, so that a plan can be serialised."""

    def open(self) -> Operator:
        """A fresh live half."""
        ...


class Stateless:
    """Base of operators without state: watermarks pass through."""

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes the watermark on."""
        return watermark

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Returns no state."""
        return ()

    def restore(self, states: RestoredStates) -> None:
        """Ignores state that an earlier version of the step had written."""

    def close(self) -> None:
        """Does nothing."""
