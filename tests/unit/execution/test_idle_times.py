"""The height at which idle partitions stand."""

from headrace.core.signals import TIME_MIN
from headrace.execution.idle_times import Heights, SourceReports, relayed_heights
from headrace.rpc.status import SourceSubtaskStatus


def test_the_minimum_over_the_sources_own_active_partitions() -> None:
    assert relayed_heights({"a": [5, 3, None], "b": [9]}, {"a": [5, 8, 20], "b": [9]}) == {"a": 3, "b": 9}


def test_a_source_that_is_all_idle_stands_with_the_others_or_at_what_it_has_reached() -> None:
    active: Heights = {"a": [None, None], "b": [9], "c": [7]}
    assert relayed_heights(active, {"a": [2, 5]}) == {"a": 7, "b": 9, "c": 7}
    assert relayed_heights(active, {"a": [None, 8]}) == {"a": 8, "b": 9, "c": 7}
    assert relayed_heights(active, {"a": [None, None]}) == {"a": 7, "b": 9, "c": 7}


def test_where_everything_is_idle_each_source_stands_at_what_it_has_reached() -> None:
    active = {"a": [None, None], "b": [None]}
    assert relayed_heights(active, {"a": [3, 6], "b": [4]}) == {"a": 6, "b": 4}
    assert relayed_heights(active, {"a": [3, 6], "b": [None]}) == {"a": 6, "b": 6}, "it holds nothing back"
    assert relayed_heights(active, {"a": [None, None], "b": [None]}) == {"a": None, "b": None}


def report(source: str, subtask: int, height: int | None, reached: int | None = None) -> SourceSubtaskStatus:
    return SourceSubtaskStatus(
        source=source, subtask=subtask, active_height=height, reached=reached, has_splits=True, watermark=0, lag=0
    )


def test_a_subtask_that_has_not_reported_holds_time_back() -> None:
    reports = SourceReports({"a": 2, "b": 1})
    reports.take([report("a", 0, 5), report("b", 0, None), report("untimed", 3, 1)])
    assert reports.heights() == {"a": TIME_MIN, "b": TIME_MIN}
    reports.take([report("a", 1, 8)])
    assert reports.heights() == {"a": 5, "b": 5}
    reports.take([report("a", 0, None)])
    assert reports.heights() == {"a": 8, "b": 8}
    reports.take([report("a", 0, None, 12), report("a", 1, None, 11), report("b", 0, None, 3)])
    assert reports.heights() == {"a": 12, "b": 3}
