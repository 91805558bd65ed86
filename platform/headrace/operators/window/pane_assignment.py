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
import numpy.typing as npt
import polars as pl

from headrace.core.batch import TS, WM
from headrace.core.signals import TIME_MIN
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Order
from headrace.operators.operator import LATE, Collector
from headrace.operators.window.assigner import Assigner, Times, windows_of
from headrace.operators.window.placed_rows import PANE, SINCE, PaneKey

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


# ---- lateness --------------------------------------------------------------------------------------------------------
# Judges lateness: the windows in which a row counts, by the row's own watermark, or by the operator's (Flink's rule).
#
# A row's own watermark is `__wm`, which its source task adds to it: the watermark of the row's partition just after the
# row (`worker.task.source_progress`). A batch without that column has no row that could be late.
#
# A row counts in exactly those of its windows with end - 1 + allowed lateness > watermark. This module owns that
# comparison, and a bounded cache of the assigner's panes (`_PANES_KEPT`); it keeps no rows.

_PANES_KEPT = 4096
_FAR = 1 << 62
"""Watermarks are clipped to +-2^62, so that differences do not wrap around."""


@dataclass(frozen=True, slots=True)
class PaneWindows:
    """A pane's end, and the end of its first window."""

    end: int
    first_end: int


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of a batch.

    panes    per row the start of its pane
    since    per row the end of the first window that it is on time for; undefined where `late`
    late     per row whether it is late for all its windows
    partly   number of rows that are late for some of their windows but not all
    """

    panes: Times
    since: Times
    late: npt.NDArray[np.bool_]
    partly: int


class Judge:
    """Applies one step's lateness rule."""

    def __init__(self, assigner: Assigner, allowed_ms: int) -> None:
        self._assigner = assigner
        self._allowed = allowed_ms
        self._known: dict[int, PaneWindows] = {}
        self._first_ends: dict[int, int] = {}

    def pane(self, pane: int) -> PaneWindows:
        """The pane's end and the end of its first window, cached."""
        windows = self._known.get(pane)
        if windows is None:
            if len(self._known) >= _PANES_KEPT:
                # clearing the whole cache is sufficient: panes of current rows enter it again with the next lookup
                self._known.clear()
            windows = self._known[pane] = PaneWindows(self._assigner.pane_end(pane), self._assigner.first(pane)[1])
        return windows

    def on_time(self, pane: int, watermark: int) -> bool:
        """Whether rows of a pane (and of all later ones) are on time for all their windows at a watermark."""
        return self.pane(pane).first_end - 1 + self._allowed > watermark

    def judge(self, times: Times, watermarks: Times | int | None) -> Judged:
        """Judges each row. times: event times (epoch ms); watermarks: one per row, or one for all; None: no row is
        late."""
        panes = self._assigner.panes(times)
        distinct, place = np.unique(panes, return_inverse=True)
        since = self._first_ends_of(distinct)[place]
        late = np.zeros(times.size, dtype=np.bool_)
        if watermarks is None:
            return Judged(panes, since, late, 0)
        # windows with end <= lost have passed for the row: end - 1 + allowed <= watermark
        lost = np.broadcast_to(np.clip(watermarks, -_FAR, _FAR) - self._allowed + 1, times.shape)
        # only rows whose first window has passed need the pane's further windows, which may be many
        touched = np.flatnonzero(since <= lost)
        partly = 0
        for number in np.unique(place[touched]).tolist():
            rows = touched[place[touched] == number]
            ends = np.array([end for _, end in windows_of(self._assigner, int(distinct[number]))], dtype=np.int64)
            # index of the row's first window with end > lost; past the last one the row is late
            first = np.searchsorted(ends, lost[rows], side="right")
            taken = first < ends.size
            since[rows[taken]] = ends[first[taken]]
            late[rows[~taken]] = True
            partly += int(taken.sum())
        return Judged(panes, since, late, partly)

    def _first_ends_of(self, panes: Times) -> Times:
        """The end of each pane's first window, cached: with a local calendar a window takes a search."""
        known = self._first_ends
        missing = [pane for pane in panes.tolist() if pane not in known]
        if missing:
            if len(known) + len(missing) > _PANES_KEPT:
                known.clear()
                missing = panes.tolist()
            # every window of a pane ends after the pane's start
            known.update(zip(missing, [end for _, end in self._assigner.firsts(missing, missing)], strict=True))
        return np.array([known[pane] for pane in panes.tolist()], dtype=np.int64)
