"""Which windows a row counts in: the judgement by the row's own watermark (or the operator's, Flink's rule).

A row counts in exactly those of its windows with end - 1 + allowed lateness > watermark. Owns that comparison and a
bounded memory of what the assigner said about panes; keeps no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.operators.window.assigner import Assigner, Times, windows_of

_PANES_KEPT = 4096
_FAR = 1 << 62
"""Watermarks are clipped to this, so that differences do not wrap."""


@dataclass(frozen=True, slots=True)
class PaneWindows:
    """What is known of every pane that rows come for: where it ends, and where its first window ends."""

    end: int
    first_end: int


@dataclass(frozen=True, slots=True)
class Judged:
    """Per row its pane and the end of the first window that it is on time for.

    `since` means nothing where `late`. `partly` rows lost some windows but not all.
    """

    panes: Times
    since: Times
    late: npt.NDArray[np.bool_]
    partly: int


class Judge:
    """Applies one step's rule."""

    def __init__(self, assigner: Assigner, allowed_ms: int) -> None:
        self._assigner = assigner
        self._allowed = allowed_ms
        self._known: dict[int, PaneWindows] = {}

    def pane(self, pane: int) -> PaneWindows:
        """What is known of a pane."""
        found = self._known.get(pane)
        if found is None:
            if len(self._known) >= _PANES_KEPT:
                self._known.clear()
            found = self._known[pane] = PaneWindows(self._assigner.pane_end(pane), self._assigner.first(pane)[1])
        return found

    def on_time(self, pane: int, watermark: int) -> bool:
        """Whether rows of a pane (and of all later ones) are on time for all their windows at a watermark."""
        return self.pane(pane).first_end - 1 + self._allowed > watermark

    def judge(self, times: Times, watermarks: Times | int | None) -> Judged:
        """Judges rows one by one. Watermarks None: nothing is late."""
        panes = self._assigner.panes(times)
        distinct, place = np.unique(panes, return_inverse=True)
        first_ends = np.array([self.pane(pane).first_end for pane in distinct.tolist()], dtype=np.int64)
        since = first_ends[place]
        late = np.zeros(times.size, dtype=np.bool_)
        if watermarks is None:
            return Judged(panes, since, late, 0)
        # a window that ends at this moment or before is lost to the row
        lost = np.broadcast_to(np.clip(watermarks, -_FAR, _FAR) - self._allowed + 1, times.shape)
        touched = np.flatnonzero(since <= lost)
        partly = 0
        for number in np.unique(place[touched]).tolist():
            rows = touched[place[touched] == number]
            ends = np.array([end for _, end in windows_of(self._assigner, int(distinct[number]))], dtype=np.int64)
            first = np.searchsorted(ends, lost[rows], side="right")
            taken = first < ends.size
            since[rows[taken]] = ends[first[taken]]
            late[rows[~taken]] = True
            partly += int(taken.sum())
        return Judged(panes, since, late, partly)
