"""The operator contract: the operator, its config, the collector of its output, and the policies for failing rows.

    config (frozen) --open()--> Operator:  restore?  on_batch*  (on_watermark, snapshot interleaved)  close

The chain calls `on_watermark` before it passes a watermark on. The operator emits the results that the watermark
completes, and returns the watermark for operators downstream: the same one, or a lower one if later results may lie
behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import polars as pl

    from headrace.state.snapshot import RestoredStates, StateSnapshot

LATE = "late"
"""Side output of rows that are late for all their windows."""
BAD = "bad"
"""Side output of rows that failed; it has the input's columns and `reason`."""
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
        """Sends rows to the side output with this name; they are dropped if it has no receiver."""
        ...

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters: `late`, `partly_late`, `bad`, `skipped`."""
        ...


class Operator(Protocol):
    """The opened part of a node, which processes rows and has its state. Used by one thread at a time."""

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Processes a batch of at least one row, with hidden columns."""
        ...

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Handles the watermark (epoch ms): emits completed results, and returns the watermark to pass on."""
        ...

    def snapshot(self) -> Sequence[StateSnapshot]:
        """The operator's whole state now, as references to immutable frames, so that the call is fast. Does not change
        later results. The same chunk id in a later snapshot means the same rows."""
        ...

    def restore(self, states: RestoredStates) -> None:
        """Restores state before the first batch. `states`: this subtask's share of the rows that all subtasks wrote.

        Raises UserError if a state does not fit this step.
        """
        ...

    def close(self) -> None:
        """Releases all resources, at the end or after a failure. Idempotent."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """An operator whose results wait for event time. Any thread may read its properties."""

    @property
    def watermark(self) -> int:
        """The watermark that it has handled last (epoch ms)."""
        ...

    @property
    def next_end(self) -> int | None:
        """End of the first window that has rows and has not fired (epoch ms); None: there is none."""
        ...


class OperatorConfig(Protocol):
    """The configuration of a node: plain, frozen data only, so that a plan can be serialised."""

    def open(self) -> Operator:
        """A new operator of this node."""
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
        """Ignores state that an earlier version of the step wrote."""

    def close(self) -> None:
        """Does nothing."""
