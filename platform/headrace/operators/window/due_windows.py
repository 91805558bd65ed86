"""The windows that have rows, each of which fires once: kept as runs of consecutive windows.

A pane belongs to many windows: to 86,400 if windows of a day slide by a second. Nearly all of these windows contain the
neighbouring panes too, so they are already registered when the rows of the next pane arrive. So nothing is stored per
window: a run is two places, that of its first window and that of the window after its last. A place is (end, start) of
a window, because windows are ordered by end, then start.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from headrace.core.signals import TIME_MIN
from headrace.operators.window.assigner import Assigner, Span

Place = tuple[int, int]


class DueWindows:
    """Collects windows of an assigner, returns each of them once when it is due, and forgets it later."""

    def __init__(self, assigner: Assigner) -> None:
        self._assigner = assigner
        self._known = _Runs()
        self._due = _Runs()
        """The known windows that `take` has not returned yet."""

    @property
    def runs(self) -> int:
        """Number of runs kept."""
        return len(self._known.firsts) + len(self._due.firsts)

    @property
    def next_end(self) -> int | None:
        """End of the first window that `take` has not returned yet; None: there is none. Called by any thread."""
        # a slice: the list may be emptied between two calls
        first = self._due.firsts[:1]
        return first[0][0] if first else None

    def add(self, firsts: Sequence[Span], lasts: Sequence[Span]) -> None:
        """Registers, for each pair, the windows from the first to the last. A window that is known already does not
        become due again."""
        for begin, behind in _joined(firsts, self._assigner.followings(lasts)):
            for fresh in self._known.add(begin, behind):
                self._due.add(*fresh)

    def take(self, watermark: int) -> list[Span]:
        """The windows that end at `watermark` + 1 or before and were not returned yet, in order."""
        taken: list[Span] = []
        due = self._due
        while due.firsts and due.firsts[0][0] - 1 <= watermark:
            (end, start), behind = due.firsts[0], due.behind[0]
            while (end, start) < behind and end - 1 <= watermark:
                taken.append((start, end))
                start, end = self._assigner.following((start, end))
            due.cut((end, start))
        return taken

    def forget(self, watermark: int) -> None:
        """Forgets windows that end at `watermark` + 1 or before; all of them have been returned."""
        # this place is before every window that ends after `watermark` + 1; it need not be a window's place
        self._known.cut((watermark + 2, TIME_MIN))


class _Runs:
    """Disjoint, non-adjacent runs in order. firsts: the first place of each run; behind: the place after its last."""

    def __init__(self) -> None:
        self.firsts: list[Place] = []
        self.behind: list[Place] = []

    def add(self, begin: Place, behind: Place) -> list[tuple[Place, Place]]:
        """Adds a run; returns its parts that no run covered."""
        # the runs that overlap or touch the new one are [low, high)
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
        """Removes everything before a place."""
        gone = bisect.bisect_right(self.behind, place)
        del self.firsts[:gone], self.behind[:gone]
        if self.firsts and self.firsts[0] < place:
            self.firsts[0] = place


def _joined(firsts: Sequence[Span], behind: Sequence[Span]) -> list[tuple[Place, Place]]:
    """The runs, in order, from each of `firsts` to the window before the one of `behind`. Runs that overlap or touch
    are one: the panes of a batch are mostly neighbours, and make a single run."""
    begins = [(end, start) for start, end in firsts]
    ends = [(end, start) for start, end in behind]
    runs: list[tuple[Place, Place]] = []
    for begin, end in sorted(zip(begins, ends, strict=True)):
        if runs and begin <= runs[-1][1]:
            if end > runs[-1][1]:
                runs[-1] = runs[-1][0], end
        else:
            runs.append((begin, end))
    return runs
