"""The operator contract, and what an operator may do with rows and with failures.

    config (frozen) --open()--> Operator:  restore?  on_batch*  (on_watermark, snapshot interleaved)  close

The chain calls `on_watermark` before it passes a watermark on; the operator emits what the watermark makes ready and
returns how far time has come for those below it (itself, or less: a hold).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

    from headrace.state.snapshot import RestoredStates, StateSnapshot

LATE = "late"
"""Side output of rows that no window took."""
BAD = "bad"
"""Side output of rows that failed; input columns and `reason`."""
REASON = "reason"


class OnError(StrEnum):
    """What happens to a row that fails in a step."""

    FAIL = "fail"
    SKIP = "skip"
    DIVERT = "divert"


class Collector(Protocol):
    """Where an operator puts what it makes."""

    def emit(self, batch: pl.DataFrame) -> None:
        """Sends rows to the operator's main output, in order."""
        ...

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Sends rows to the side output of that name (dropped where nobody reads it)."""
        ...

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters: `late`, `partly_late`, `bad`, `skipped`."""
        ...


class Operator(Protocol):
    """The live half of a node. Used by one thread at a time."""

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Takes a batch of at least one row, with hidden columns."""
        ...

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Time has come to `watermark` (epoch ms). Emits what is ready; returns the watermark to pass on."""
        ...

    def snapshot(self) -> Sequence[StateSnapshot]:
        """All that it remembers, as of now: references to immutable frames, so that this takes no time. Changes
        nothing. The same chunk id in a later snapshot means the same rows."""
        ...

    def restore(self, states: RestoredStates) -> None:
        """Takes back what snapshots gave, before the first batch: this subtask's share of the rows of all of them.

        Raises UserError where a state does not fit this step any more.
        """
        ...

    def close(self) -> None:
        """Releases what it holds: at the end, also after a failure. Idempotent."""
        ...


class OperatorConfig(Protocol):
    """The frozen half of a node; everything in it is plain data, so that a plan can be written down."""

    def open(self) -> Operator:
        """A fresh live half."""
        ...


class Stateless:
    """Base of operators that keep nothing: time passes through."""

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes time on."""
        return watermark

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Nothing."""
        return ()

    def restore(self, states: RestoredStates) -> None:
        """Nothing: whatever an earlier version of the step kept is not needed."""

    def close(self) -> None:
        """Holds nothing."""
