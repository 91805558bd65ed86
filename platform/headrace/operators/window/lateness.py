"""Judges lateness: the windows in which a row counts, by the row's own watermark, or by the operator's (Flink's rule).

A row's own watermark is `__wm`, which its source task adds to it: the watermark of the row's partition just after the
row (`worker.task.source_progress`). A batch without that column has no row that could be late.

A row counts in exactly those of its windows with end - 1 + allowed lateness > watermark. This module owns that
comparison, and a bounded cache of the assigner's panes (`_PANES_KEPT`); it keeps no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.operators.window.assigner import Assigner, Times, windows_of

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
