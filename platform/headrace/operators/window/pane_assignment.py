"""Assigns the rows of a batch to panes of state (`state.PaneKey`), and separates rows that are late for all windows.

Owns the conversion from a batch to working rows (`Layout.rows`) by pane: rows of few panes stay together with the
panes' times, or are split, one frame per pane; rows of many panes get pane columns. Late rows go to the collector.
Keeps no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from headrace.core.batch import TS, WM
from headrace.core.signals import TIME_MIN
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Order
from headrace.operators.operator import LATE, Collector
from headrace.operators.window.assigner import Assigner, Times
from headrace.operators.window.lateness import Judge
from headrace.operators.window.state import PANE, SINCE, PaneKey

_NARROW_MAX = 4
"""Most panes of a batch that are filtered one by one; a batch with more of them gets pane columns."""

Lateness = Literal["row", "operator"]


@dataclass(frozen=True, slots=True)
class WindowRule:
    """The rule by which rows are assigned to windows, and judged late or on time.

    definition the window definition as text, such as `tumbling 3600000 offset 0 UTC` (`Tumbling.definition`); it is
               written with the state, and state of another definition is rejected
    lateness   `row`: rows are judged by their own watermark (`__wm`); `operator`: by the operator's, as in Flink
    order      the order of rows for first and last
    """

    definition: str
    allowed_lateness_ms: int = 0
    lateness: Lateness = "row"
    order: Order = "event"


@dataclass(frozen=True, slots=True)
class PaneRanges:
    """Working rows of a few panes. panes: (pane, begin, end): all rows with begin <= time < end belong to the pane."""

    rows: pl.DataFrame
    panes: Sequence[tuple[PaneKey, int, int]]

    def by_pane(self) -> RowsByPane:
        """The rows split by pane."""
        if len(self.panes) == 1:
            return RowsByPane([(self.panes[0][0], self.rows)])
        parts = [
            (pane, self.rows.filter((pl.col(TS) >= begin) & (pl.col(TS) < end))) for pane, begin, end in self.panes
        ]
        return RowsByPane([(pane, inside) for pane, inside in parts if inside.height])


@dataclass(frozen=True, slots=True)
class RowsByPane:
    """Working rows, pane by pane."""

    panes: Sequence[tuple[PaneKey, pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class RowsWithPane:
    """Working rows with PANE and SINCE columns, of many panes."""

    rows: pl.DataFrame


AssignedRows = PaneRanges | RowsByPane | RowsWithPane


class PaneAssignment:
    """Assigns the rows of one step to panes."""

    def __init__(self, layout: Layout, assigner: Assigner, rule: WindowRule) -> None:
        self._layout = layout
        self._assigner = assigner
        self._rule = rule
        self._judge = Judge(assigner, rule.allowed_lateness_ms)

    def assign(self, batch: pl.DataFrame, watermark: int, out: Collector) -> AssignedRows:
        """Assigns rows that do not fail to panes. Sends late rows to the side output, and counts them. `watermark`: the
        operator's, used if the rule is `operator`."""
        times = batch.get_column(TS)
        bounds = np.array([times.min(), times.max()], dtype=np.int64)
        first, last = self._assigner.panes(bounds).tolist()
        # if rows of the earliest pane are on time at the greatest watermark, every row is on time
        if self._judge.on_time(first, self._greatest_watermark(batch, watermark)):
            panes = self._few_panes(first, last)
            if panes is not None:
                return self._spans(batch, panes)
        return self._judged(batch, watermark, out)

    def _greatest_watermark(self, batch: pl.DataFrame, watermark: int) -> int:
        """The greatest watermark by which a row of the batch is judged."""
        if self._rule.lateness == "operator":
            return watermark
        if WM not in batch.columns:
            return TIME_MIN
        greatest = batch.get_column(WM).max()
        return greatest if isinstance(greatest, int) else TIME_MIN

    def _few_panes(self, first: int, last: int) -> list[int] | None:
        """All panes from first to last, or None if they are more than `_NARROW_MAX`."""
        panes = [first]
        while panes[-1] < last:
            if len(panes) == _NARROW_MAX:
                return None
            panes.append(self._judge.pane(panes[-1]).end)
        return panes

    def _spans(self, batch: pl.DataFrame, panes: Sequence[int]) -> PaneRanges:
        """Rows of few panes that are all on time. This is the common path, and computes no pane per row."""
        known = [(pane, self._judge.pane(pane)) for pane in panes]
        return PaneRanges(self._layout.rows(batch), [((pane, it.first_end), pane, it.end) for pane, it in known])

    def _judged(self, batch: pl.DataFrame, watermark: int, out: Collector) -> AssignedRows:
        """Judges each row, and assigns the rows that are not late to panes."""
        judged = self._judge.judge(batch.get_column(TS).to_numpy(), self._watermarks(batch, watermark))
        panes, since = judged.panes, judged.since
        if judged.partly:
            out.count("partly_late", judged.partly)
        if judged.late.any():
            late = pl.Series(judged.late)
            out.count("late", int(judged.late.sum()))
            out.emit_side(LATE, batch.filter(late))
            batch = batch.filter(~late)
            panes, since = panes[~judged.late], since[~judged.late]
        if not batch.height:
            return RowsByPane(())
        rows = self._layout.rows(batch).with_columns(pl.Series(PANE, panes), pl.Series(SINCE, since))
        keys = rows.select(PANE, SINCE).unique().sort(PANE, SINCE).rows()
        if len(keys) > _NARROW_MAX:
            return RowsWithPane(rows)
        if len(keys) == 1:
            return RowsByPane([(keys[0], rows)])
        return RowsByPane([(key, rows.filter((pl.col(PANE) == key[0]) & (pl.col(SINCE) == key[1]))) for key in keys])

    def _watermarks(self, batch: pl.DataFrame, watermark: int) -> Times | int | None:
        if self._rule.lateness == "operator":
            return watermark
        return batch.get_column(WM).to_numpy() if WM in batch.columns else None
