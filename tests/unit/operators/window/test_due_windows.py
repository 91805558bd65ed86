from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.window.assigner import Span, windows_of
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.operators.window.due_windows import DueWindows

DAY_MS, SECOND_MS = 86_400_000, 1_000
WINDOWS: list[Window] = [
    Tumbling(10),
    Sliding(35, 10, 3),
    Sliding(40, 10),
    Cumulate(60, 10, -7),
    Tumbling(DAY_MS // 24, timezone="Europe/Berlin"),
    Cumulate(DAY_MS // 4, DAY_MS // 24, timezone="Europe/Berlin"),
    Sliding(DAY_MS // 4, DAY_MS // 24, timezone="Europe/Berlin"),
]
UNIT_MS = 7
STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4), st.integers(0, 8)), max_size=30)


class Model:
    """Every window on its own."""

    def __init__(self) -> None:
        self._known: set[Span] = set()
        self._waiting: set[Span] = set()

    def add(self, windows: list[Span]) -> None:
        self._waiting |= set(windows) - self._known
        self._known |= set(windows)

    def take(self, watermark: int) -> list[Span]:
        due = {window for window in self._waiting if window[1] - 1 <= watermark}
        self._waiting -= due
        return sorted(due, key=lambda window: (window[1], window[0]))

    @property
    def next_end(self) -> int | None:
        return min((window[1] for window in self._waiting), default=None)

    def forget(self, watermark: int) -> None:
        self._known = {window for window in self._known if window[1] - 1 > watermark}


@given(st.sampled_from(WINDOWS), STEPS)
def test_each_window_with_rows_is_due_once(window: Window, steps: list[tuple[int, int, int]]) -> None:
    """Panes come in any order, with windows that are over and windows that are forgotten among theirs."""
    assigner = window.assigner()
    unit = DAY_MS // 24 // 3 if getattr(window, "timezone", "UTC") != "UTC" else UNIT_MS
    kept, model, watermark = DueWindows(assigner), Model(), -1
    for place, skipped, passed in steps:
        pane = int(assigner.panes(np.array([place * unit], dtype=np.int64))[0])
        windows = list(windows_of(assigner, pane))
        windows = windows[min(skipped, len(windows) - 1) :]
        kept.add(windows[:1], windows[-1:])
        model.add(windows)
        assert kept.next_end == model.next_end
        watermark += passed * unit
        assert kept.take(watermark) == model.take(watermark)
        kept.forget(watermark - 2 * unit)
        model.forget(watermark - 2 * unit)
    assert kept.take(1 << 62) == model.take(1 << 62)


def test_a_window_is_not_kept_for_each_pane() -> None:
    """A day that slides by a second: 86,400 windows a pane."""
    assigner = Sliding(DAY_MS, SECOND_MS).assigner()
    kept = DueWindows(assigner)
    for second in range(5_000):
        pane = [second * SECOND_MS]
        kept.add(assigner.firsts(pane, pane), assigner.lasts(pane))
        kept.take(second * SECOND_MS - 1)
        kept.forget(second * SECOND_MS - 1)
    assert kept.runs == 2


@given(st.sampled_from(WINDOWS), st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), max_size=12)))
def test_many_panes_at_once_are_as_one_after_the_other(window: Window, batches: list[list[tuple[int, int]]]) -> None:
    assigner = window.assigner()
    unit = DAY_MS // 24 // 3 if getattr(window, "timezone", "UTC") != "UTC" else UNIT_MS
    kept, model, watermark = DueWindows(assigner), Model(), -1
    for batch in batches:
        runs: list[list[Span]] = []
        for place, skipped in batch:
            pane = int(assigner.panes(np.array([place * unit], dtype=np.int64))[0])
            windows = list(windows_of(assigner, pane))
            runs.append(windows[min(skipped, len(windows) - 1) :])
            model.add(runs[-1])
        kept.add([run[0] for run in runs], [run[-1] for run in runs])
        assert kept.next_end == model.next_end
        watermark += 3 * unit
        assert kept.take(watermark) == model.take(watermark)
    assert kept.take(1 << 62) == model.take(1 << 62)


def test_neighbouring_panes_of_a_batch_are_one_run() -> None:
    assigner = Tumbling(10).assigner()
    kept = DueWindows(assigner)
    panes = [30, 10, 0, 20, 90, 80]
    kept.add(assigner.firsts(panes, panes), assigner.lasts(panes))
    assert kept.runs == 4, "0 to 40 and 80 to 100, each known and due"
    assert kept.take(99) == [(0, 10), (10, 20), (20, 30), (30, 40), (80, 90), (90, 100)]
