"""Rates follow from reports: over the last seconds, and since the subtasks of the attempt run."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.coordinator.figures.slot_series import SAMPLES_MAX, WINDOW_MS, Rate, SlotSeries
from headrace.rpc.figures import NodeFigures, SlotFigures


def counters(rows: int) -> dict[str, dict[str, int]]:
    return {"s": {"rows_in": rows, "rows_out": rows // 2, "late": 1}}


def series(*reports: tuple[int, int]) -> SlotSeries:
    made = SlotSeries()
    for at_ms, rows in reports:
        made.take(SlotFigures(at_ms=at_ms), counters(rows))
    return made


def test_the_first_report_has_a_rate_since_the_subtasks_run() -> None:
    assert series((500, 1_000)).rate("s", "rows_in") == Rate(2_000.0, 2_000.0)


def test_a_recent_rate_forgets_what_is_older_than_the_window() -> None:
    fast_then_idle = series(*[(500 * n, 1_000 * min(n, 10)) for n in range(1, 61)])

    assert fast_then_idle.rate("s", "rows_in").recent == 0.0
    assert fast_then_idle.rate("s", "rows_in").attempt == pytest.approx(10_000 / 30)


def test_a_slow_start_is_in_the_attempt_and_leaves_the_window() -> None:
    # 20 s without a row, then 100 rows a second
    made = series((10_000, 0), (20_000, 0), *[(20_000 + 1_000 * n, 100 * n) for n in range(1, 21)])

    assert made.rate("s", "rows_in").recent == pytest.approx(100.0)
    assert made.rate("s", "rows_in").attempt == pytest.approx(50.0)


def test_two_reports_of_one_moment_count_once() -> None:
    made = series((0, 0), (1_000, 500), (1_000, 800))

    assert made.rate("s", "rows_in") == Rate(800.0, 800.0)


def test_before_any_time_has_passed_there_is_no_rate() -> None:
    assert series((0, 70_000)).rate("s", "rows_in") == Rate(0.0, 0.0)


def test_totals_have_bytes_only_where_rows_leave_the_subtask() -> None:
    made = SlotSeries()
    made.take(SlotFigures(at_ms=1_000, nodes=(NodeFigures(node="s", bytes_in=640),)), counters(10))

    assert (made.totals("s").bytes_in, made.totals("s").bytes_out) == (640, None)
    assert (made.totals("s").late, made.totals("t").rows_in, made.totals("t").bytes_in) == (1, 0, None)


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(0, 10_000)), min_size=1, max_size=200))
def test_rates_are_differences_of_totals(steps: list[tuple[int, int]]) -> None:
    at_ms, rows, reports = 0, 0, [(0, 0)]
    for past_ms, grown in steps:
        at_ms, rows = at_ms + past_ms, rows + grown
        reports.append((at_ms, rows))
    made = series(*reports[1:])

    old = [report for report in reports if report[0] <= at_ms - WINDOW_MS]
    first_ms, first_rows = old[-1] if old else (0, 0)
    if len(steps) < SAMPLES_MAX:
        assert made.rate("s", "rows_in").recent == pytest.approx((rows - first_rows) * 1_000 / (at_ms - first_ms))
    assert made.rate("s", "rows_in").attempt == pytest.approx(rows * 1_000 / at_ms)
