"""Reports that are due are sent while they say something new, and now and then."""

from __future__ import annotations

from headrace.rpc.status import SourceSubtaskStatus
from headrace.worker.slot.status_report import INTERVAL_MS, TIMED_INTERVAL_MS, DueReports


def source(height: int | None, *, has_splits: bool = True, lag: int = 0) -> tuple[SourceSubtaskStatus, ...]:
    return (
        SourceSubtaskStatus(source="s", subtask=0, active_height=height, has_splits=has_splits, watermark=0, lag=lag),
    )


def sent(reports: DueReports, heights: list[tuple[SourceSubtaskStatus, ...]], interval_ms: int) -> list[int]:
    """The times at which reports are sent: one is due every interval."""
    times = []
    for number, sources in enumerate(heights):
        now_ms = 10_000 + number * interval_ms
        if reports.is_news(sources, now_ms):
            # a moment passes before it is made
            reports.made(sources, now_ms + 1)
            times.append(number * interval_ms)
    return times


def test_heights_that_stand_still_are_reported_as_often_as_those_of_any_source() -> None:
    times = sent(DueReports(TIMED_INTERVAL_MS), [source(7, lag=number) for number in range(21)], TIMED_INTERVAL_MS)
    assert times == [0, INTERVAL_MS, 2 * INTERVAL_MS, 3 * INTERVAL_MS, 4 * INTERVAL_MS]


def test_a_height_that_moves_is_reported_at_once() -> None:
    heights = [source(7), source(8), source(8), source(None), source(None), source(None, has_splits=False)]
    assert sent(DueReports(TIMED_INTERVAL_MS), heights, TIMED_INTERVAL_MS) == [0, 100, 300, 500]


def test_reports_of_sources_whose_time_is_not_relayed_are_all_sent() -> None:
    assert sent(DueReports(INTERVAL_MS), [source(7)] * 4, INTERVAL_MS) == [0, 500, 1000, 1500]


def test_a_report_that_was_not_due_counts() -> None:
    reports = DueReports(TIMED_INTERVAL_MS)
    reports.made(source(7), 10_000)
    assert not reports.is_news(source(7), 10_100)
    assert reports.is_news(source(8), 10_100)
