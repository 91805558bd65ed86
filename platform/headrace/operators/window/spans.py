"""The windows that have rows, of which each is due once: kept as runs of windows that follow each other.

A pane of a day's windows that slide by a second belongs to 86,400 of them, nearly all of which other panes have named
before. So nothing is kept for a single window: a run is two places, from the first window to the one behind the last.

Places are (end, start) of windows, in which order windows follow each other.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable

from headrace.core.signals import TIME_MIN
from headrace.operators.window.assigner import Span

Place = tuple[int, int]


class DueWindows:
    """Takes runs of windows, gives each window out once its time has come, and forgets it later.

    following: window -> the one after it
    """

    def __init__(self, following: Callable[[Span], Span]) -> None:
        self._following = following
        self._known = _Runs()
        self._due = _Runs()
        """Of the known windows, those that were not given out yet."""

    @property
    def runs(self) -> int:
        """How many runs are kept."""
        return len(self._known.firsts) + len(self._due.firsts)

    def add(self, first: Span, last: Span) -> None:
        """Windows from `first` to `last` have rows. Those that are known already stay as they are."""
        for begin, behind in self._known.add(_place(first), _place(self._following(last))):
            self._due.add(begin, behind)

    def take(self, watermark: int) -> list[Span]:
        """The windows that end at `watermark` + 1 or before and were not given out yet, in order."""
        taken: list[Span] = []
        while self._due.firsts and self._due.firsts[0][0] - 1 <= watermark:
            end, start = self._due.firsts[0]
            taken.append((start, end))
            self._due.cut(_place(self._following((start, end))))
        return taken

    def forget(self, watermark: int) -> None:
        """Windows that end at `watermark` + 1 or before, which have been given out, are not known any more."""
        # a place between windows: it is compared, and nothing else
        self._known.cut((watermark + 2, TIME_MIN))


class _Runs:
    """Runs in order, of which no two overlap or touch: the first place of each, and the place behind it."""

    def __init__(self) -> None:
        self.firsts: list[Place] = []
        self.behind: list[Place] = []

    def add(self, begin: Place, behind: Place) -> list[tuple[Place, Place]]:
        """Adds a run; returns the parts of it that were in none."""
        low = bisect.bisect_left(self.behind, begin)
        high = bisect.bisect_right(self.firsts, behind)
        fresh: list[tuple[Place, Place]] = []
        at = begin
        for known_first, known_behind in zip(self.firsts[low:high], self.behind[low:high], strict=True):
            if at < known_first:
                fresh.append((at, known_first))
            at = max(at, known_behind)
        if at < behind:
            fresh.append((at, behind))
        if low < high:
            begin, behind = min(begin, self.firsts[low]), max(behind, self.behind[high - 1])
        self.firsts[low:high], self.behind[low:high] = [begin], [behind]
        return fresh

    def cut(self, place: Place) -> None:
        """Takes away what lies before a place."""
        gone = bisect.bisect_right(self.behind, place)
        del self.firsts[:gone], self.behind[:gone]
        if self.firsts and self.firsts[0] < place:
            self.firsts[0] = place


def _place(window: Span) -> Place:
    return window[1], window[0]
