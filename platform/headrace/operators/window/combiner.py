"""The combiner of a windowed aggregate (`operators.aggregation.combining`), which runs in the sending subtask: it turns
rows that are on time into partial aggregates by pane and key.

It passes on late rows, and batches with a failing row, unchanged: the operator in the reading subtask applies the
policies for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.batch import ORDER_COLUMNS
from headrace.core.signals import TIME_MIN
from headrace.operators.aggregates import columns
from headrace.operators.aggregates.exact.limbs import ROWS_MAX
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregation.combining import Partials
from headrace.operators.aggregation.failures import RowFailures
from headrace.operators.operator import Collector
from headrace.operators.window.assigner import Assigner
from headrace.operators.window.pane_assignment import (
    AssignedRows,
    PaneAssignment,
    PaneRanges,
    RowsByPane,
    RowsWithPane,
    WindowRule,
)
from headrace.operators.window.placed_rows import PANE, SINCE, placed


class WindowCombiner:
    """Implements `Combiner` for steps whose windows fire once, and whose rows are judged late or on time by their own
    watermark (`__wm`)."""

    def __init__(self, layout: Layout, assigner: Assigner, rule: WindowRule, failures: RowFailures) -> None:
        self._layout = layout
        self._assignment = PaneAssignment(layout, assigner, rule)
        self._failures = failures

    @property
    def keys(self) -> tuple[str, ...]:
        """The step's key columns."""
        return tuple(self._layout.keys)

    def combine(self, batch: pl.DataFrame, out: Collector) -> Partials | None:
        """Partial aggregates with PANE, SINCE, the keys and state columns."""
        if batch.height > ROWS_MAX or not self._failures.none(batch):
            out.emit(batch)
            return None
        late = _Late(out)
        made = self._made(self._assignment.assign(batch, TIME_MIN, late))
        out.count("rows_in", batch.height - late.rows)
        return Partials(tuple(made), ordered=ORDER_COLUMNS[0] in batch.columns) if made else None

    def _made(self, rows: AssignedRows) -> list[pl.DataFrame]:
        """A frame for each part of the state."""
        keys = self._layout.keys
        match rows:
            case RowsWithPane(mixed):
                return [part.partial(mixed, [PANE, SINCE, *keys]) for part in self._layout.parts]
            case PaneRanges():
                return self._made(rows.by_pane())
            case RowsByPane([]):
                return []
            case RowsByPane(panes):
                return [
                    columns.concat([placed(part.partial(inside, keys), pane) for pane, inside in panes])
                    for part in self._layout.parts
                ]


@dataclass(slots=True)
class _Late:
    """Passes late rows on unchanged; the operator in the reading subtask counts them."""

    out: Collector
    rows: int = 0

    def emit(self, batch: pl.DataFrame) -> None:
        """Never called: the assignment emits no rows."""
        raise AssertionError("rows are assigned, not made")

    def emit_side(self, _output: str, batch: pl.DataFrame) -> None:
        """Passes late rows on."""
        self.rows += batch.height
        self.out.emit(batch)

    def count(self, counter: str, rows: int) -> None:
        """Counts everything except late rows."""
        if counter != "late":
            self.out.count(counter, rows)
