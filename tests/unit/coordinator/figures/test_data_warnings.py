"""Warnings about data: each appears where it should, once, and not where the data is as expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.coordinator.figures.data_warnings import (
    FIRST_MS,
    ROWS_MIN,
    DataWarning,
    DataWarnings,
)
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.watched_plan import WatchedPlan, WatchedSource
from headrace.core.types import TimestampUnit
from headrace.rpc.figures import (
    FIRST_ROWS_MAX,
    FirstRows,
    LateFigures,
    NodeStateFigures,
    PartitionFigures,
    SlotFigures,
    SourceFigures,
    StateFigures,
)
from headrace.rpc.status import SlotStatus, SubtaskStatus

NOW_MS = 1_780_000_000_000
SOURCE = WatchedSource("s", timed=True, time_column="at", out_of_orderness_ms=1_000)
PLAN = WatchedPlan((SOURCE,), ("kept",), {"hourly": ("s",)})


def status(
    *,
    at_ms: int = 10_000,
    first: FirstRows | None = None,
    partitions: tuple[PartitionFigures, ...] = (),
    counters: dict[str, dict[str, int]] | None = None,
    late: tuple[LateFigures, ...] = (),
    ended: bool = False,
) -> SlotStatus:
    """A report of one slot, which runs one subtask of source `s`."""
    return SlotStatus(
        counters=counters or {},
        subtasks=(SubtaskStatus(task="s", subtask=0, ended=ended),),
        figures=SlotFigures(
            at_ms=at_ms,
            sources=(SourceFigures(source="s", total=len(partitions), partitions=partitions, first=first),),
            late=late,
        ),
    )


def judged(
    *reports: SlotStatus, plan: WatchedPlan = PLAN, now_ms: int = NOW_MS, warnings: DataWarnings | None = None
) -> tuple[DataWarning, ...]:
    """What is raised by these reports, one of each slot."""
    figures = JobFigures()
    for index, report in enumerate(reports):
        figures.take(index, report)
    return (warnings or DataWarnings()).judge(plan, figures, reports, now_ms)


def kinds(found: tuple[DataWarning, ...]) -> list[str]:
    return [each.kind for each in found]


# ---- remarks of readers ----------------------------------------------------------------------------------------------


def test_a_remark_of_the_reader_is_told_once_and_before_any_row() -> None:
    warnings, first = DataWarnings(), FirstRows(rows=0, remarks=("f.csv has no column a",))
    (found,) = judged(status(at_ms=0, first=first), status(at_ms=0, first=first), warnings=warnings)
    assert (found.node, found.kind, found.text) == ("s", "input", "source s: f.csv has no column a")
    assert judged(status(first=first), warnings=warnings) == ()


# ---- columns that are NULL -------------------------------------------------------------------------------------------

NULLS = FirstRows(rows=FIRST_ROWS_MAX, all_null=("dep_delay",))


def test_a_column_that_is_null_in_all_first_rows_is_named() -> None:
    (found,) = judged(status(first=NULLS))
    assert (found.node, found.kind, found.since_ms) == ("s", "null-column", NOW_MS)
    assert "column dep_delay is NULL in all of the first 20,000 rows" in found.text


def test_a_column_with_a_value_in_another_subtask_is_as_expected() -> None:
    assert judged(status(first=NULLS), status(first=FirstRows(rows=5))) == ()
    # a subtask without rows has no say
    assert kinds(judged(status(first=NULLS), status(first=FirstRows(rows=0)))) == ["null-column"]


def test_columns_are_judged_after_the_first_rows_the_first_minute_or_all_rows() -> None:
    few = FirstRows(rows=300, all_null=("a", "b"))
    assert judged(status(first=few, at_ms=FIRST_MS - 1)) == ()
    assert kinds(judged(status(first=few, at_ms=FIRST_MS))) == ["null-column"]
    (found,) = judged(status(first=few, ended=True))
    assert "columns a, b are NULL in all of the first 300 rows" in found.text


def test_a_handful_of_rows_is_not_judged() -> None:
    assert judged(status(first=FirstRows(rows=ROWS_MIN - 1, all_null=("a",)), ended=True)) == ()


def test_many_columns_are_cut() -> None:
    many = FirstRows(rows=FIRST_ROWS_MAX, all_null=tuple(f"c{n}" for n in range(30)))
    assert "c7, .. are" in judged(status(first=many))[0].text


# ---- times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "greatest_ms", "proposed"),
    [
        ("ms", 1_780_000_000, "if they are seconds, declare `at: timestamp(s)`"),
        ("us", 1_780_000, "if they are seconds, declare `at: timestamp(s)`"),
        ("us", 1_780_000_000, "if they are milliseconds, declare `at: timestamp`"),
        ("ms", 0, "check the values of at"),
        ("s", 1_000, "check the values of at"),
    ],
)
def test_times_in_1970_propose_the_unit_that_makes_them_current(
    unit: TimestampUnit, greatest_ms: int, proposed: str
) -> None:
    first = FirstRows(rows=1_000, in_1970=990, greatest_1970=greatest_ms)
    plan = replace(PLAN, sources=(replace(SOURCE, unit=unit),))
    (found,) = judged(status(first=first), plan=plan)
    assert found.kind == "times-in-1970"
    assert "990 of the first 1,000 rows is in 1970" in found.text and proposed in found.text


def test_times_after_1970_and_sources_without_time_are_as_expected() -> None:
    assert judged(status(first=FirstRows(rows=1_000))) == ()
    early = FirstRows(rows=1_000, in_1970=990, greatest_1970=5)
    assert judged(status(first=early), plan=replace(PLAN, sources=(WatchedSource("s"),))) == ()
    assert (
        "check `time:`"
        in judged(status(first=early), plan=replace(PLAN, sources=(WatchedSource("s", timed=True),)))[0].text
    )


def partition(
    number: int, watermark: int | None, *, quiet_ms: int = 0, lag: int = 0, idle: bool = False
) -> PartitionFigures:
    return PartitionFigures(
        topic="t", partition=number, position=1, lag=lag, watermark=watermark, idle=idle, quiet_ms=quiet_ms
    )


def test_a_partition_in_the_future_is_named() -> None:
    (found,) = judged(status(partitions=(partition(0, NOW_MS), partition(4, NOW_MS + 2 * 3_600_000))))
    assert found.kind == "times-in-future"
    assert "partition 4 of t" in found.text and "check the zone and the unit of at" in found.text


def test_times_of_another_unit_propose_it() -> None:
    seconds = replace(PLAN, sources=(replace(SOURCE, unit="s"),))
    (found,) = judged(status(partitions=(partition(0, NOW_MS * 1_000),)), plan=seconds)
    assert "if they are milliseconds, declare `at: timestamp`" in found.text


def test_a_time_that_stands_for_never_is_no_other_unit() -> None:
    never_ms = 253_402_300_799_999  # 9999-12-31, which may have come as a text
    (found,) = judged(status(partitions=(partition(0, never_ms),)))
    assert "check the zone and the unit of at" in found.text


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_times_near_the_clock_are_as_expected(ahead_ms: int) -> None:
    assert judged(status(partitions=(partition(0, NOW_MS + ahead_ms), partition(1, None)))) == ()


# ---- partitions that hold time back ----------------------------------------------------------------------------------

AHEAD = partition(0, NOW_MS)


@pytest.mark.parametrize("watermark", [None, NOW_MS - 60_000])
def test_a_partition_that_holds_time_back_is_named_with_its_last_row(watermark: int | None) -> None:
    (found,) = judged(status(partitions=(AHEAD, partition(3, watermark, quiet_ms=40_000))))
    assert (found.kind, found.since_ms) == ("quiet-partition", NOW_MS - 40_000)
    assert "partition 3 of t holds time back since" in found.text and "idle_after" in found.text


@pytest.mark.parametrize(
    "other",
    [
        partition(3, NOW_MS - 60_000, quiet_ms=9_000),
        partition(3, NOW_MS - 60_000, quiet_ms=40_000, lag=5),
        partition(3, NOW_MS - 60_000, quiet_ms=40_000, idle=True),
        partition(3, NOW_MS - 10, quiet_ms=40_000),
    ],
    ids=["not quiet", "has messages", "idle", "not behind"],
)
def test_other_partitions_hold_nothing_back(other: PartitionFigures) -> None:
    assert judged(status(partitions=(AHEAD, other))) == ()


def test_quiet_partitions_without_any_that_is_ahead_are_a_quiet_source() -> None:
    assert judged(status(partitions=(partition(0, None, quiet_ms=40_000), partition(1, None, quiet_ms=40_000)))) == ()


def test_a_partition_that_goes_on_is_withdrawn_and_not_raised_again() -> None:
    warnings = DataWarnings()
    quiet, gone_on = (AHEAD, partition(3, None, quiet_ms=40_000)), (AHEAD, partition(3, NOW_MS))
    assert len(judged(status(partitions=quiet), warnings=warnings)) == 1
    assert judged(status(partitions=quiet), warnings=warnings) == ()
    assert [each.kind for each in warnings.current] == ["quiet-partition"]
    assert judged(status(partitions=gone_on), warnings=warnings) == ()
    assert not warnings.current
    assert judged(status(partitions=quiet), warnings=warnings) == (), "it is logged once"
    assert len(warnings.current) == 1, "and shown while it lasts"


def test_idle_after_has_its_time() -> None:
    plan = replace(PLAN, sources=(replace(SOURCE, idle_after_ms=30_000),))
    assert judged(status(partitions=(AHEAD, partition(3, None, quiet_ms=50_000))), plan=plan) == ()
    (found,) = judged(status(partitions=(AHEAD, partition(3, None, quiet_ms=61_000))), plan=plan)
    assert "does not become idle" in found.text


# ---- late rows -------------------------------------------------------------------------------------------------------


def late(rows: int, of: int) -> dict[str, dict[str, int]]:
    return {"hourly": {"rows_in": of, "late": rows}}


def test_a_large_late_share_is_told_with_how_late_and_what_would_help() -> None:
    # 1.1 ** 91 ms are 5.8 s; 1.1 ** 130 are 4 min
    buckets = (LateFigures(node="hourly", buckets=((91, 900), (130, 100))),)
    (found,) = judged(status(counters=late(1_000, 20_000), late=buckets))
    assert found.node == "hourly"
    assert "1,000 of 20,000 rows (5%) came after their window was closed" in found.text
    assert "half of them by more than 5.8 s, 1 % by more than 4 min" in found.text
    assert "set for source s: `out_of_orderness: 5m`" in found.text


def test_lateness_that_is_not_known_still_has_its_share() -> None:
    (found,) = judged(status(counters=late(1_000, 20_000)))
    assert "(5%)" in found.text and "`allowed_lateness`" in found.text


@pytest.mark.parametrize(("rows", "of"), [(0, 50_000), (99, 300), (190, 20_000)])
def test_a_few_late_rows_are_as_expected(rows: int, of: int) -> None:
    assert judged(status(counters=late(rows, of))) == ()


# ---- filters ---------------------------------------------------------------------------------------------------------


def test_a_filter_that_lets_nothing_pass_is_named() -> None:
    (found,) = judged(status(counters={"kept": {"rows_in": FIRST_ROWS_MAX}}))
    assert (found.node, found.kind) == ("kept", "filter-passes-nothing")
    assert "none of its first 20,000 rows" in found.text


@pytest.mark.parametrize(
    "counted",
    [{"rows_in": FIRST_ROWS_MAX, "rows_out": 1}, {"rows_in": FIRST_ROWS_MAX - 1}, {}],
    ids=["one passes", "too few", "none"],
)
def test_other_filters_are_as_expected(counted: dict[str, int]) -> None:
    assert judged(status(counters={"kept": counted})) == ()


def test_each_warning_is_raised_once_and_all_are_current() -> None:
    warnings = DataWarnings()
    report = status(first=NULLS, counters={"kept": {"rows_in": FIRST_ROWS_MAX}})
    assert kinds(judged(report, warnings=warnings)) == ["null-column", "filter-passes-nothing"]
    assert judged(report, warnings=warnings, now_ms=NOW_MS + 1_000) == ()
    assert {each.since_ms for each in warnings.current} == {NOW_MS}


# ---- state over its budget -------------------------------------------------------------------------------------------


def over_budget(*, pressed: bool, **memory: int) -> SlotStatus:
    """A report of a slot: node -> bytes that it holds in memory."""
    states = tuple(NodeStateFigures(node=node, state="s", memory_bytes=size) for node, size in memory.items())
    total = StateFigures(memory_bytes=sum(memory.values()), pressed=pressed)
    return SlotStatus(figures=SlotFigures(at_ms=0, state=total, states=states))


@pytest.mark.parametrize(
    ("most", "remedy"), [("totals", "or use a higher parallelism"), ("hourly", "or see what holds time back")]
)
def test_state_over_the_budget_is_told_of_the_step_that_holds_most(most: str, remedy: str) -> None:
    """A windowed one or not."""
    warnings = DataWarnings()
    sizes = {"totals": 2_000, "hourly": 2_000, most: 3_000}
    reports = [over_budget(pressed=pressed, **sizes) for pressed in (False, True)]
    (found,) = judged(*reports, warnings=warnings)
    assert (found.node, found.kind) == (most, "state-over-budget")
    assert "hold 10,000 bytes of state in memory, 6,000 of them here" in found.text
    assert found.text.endswith(remedy)

    assert judged(over_budget(pressed=False, **sizes), warnings=warnings) == ()
    assert warnings.current == ()


# ---- state that grows ------------------------------------------------------------------------------------------------

GROWING = WatchedPlan(growing=(("totals", "groups"),))


def growing(
    warnings: DataWarnings, size: Callable[[int], float], minutes: range, plan: WatchedPlan = GROWING
) -> list[DataWarning]:
    """What is raised while a state has so many bytes at each minute."""
    raised: list[DataWarning] = []
    for minute in minutes:
        state = NodeStateFigures(node="totals", state="groups", memory_bytes=round(size(minute)))
        report = SlotStatus(figures=SlotFigures(at_ms=minute * 60_000, states=(state,)))
        raised += judged(report, plan=plan, now_ms=NOW_MS + minute * 60_000, warnings=warnings)
    return raised


def steadily(minute: int) -> float:
    return 50e6 + 1e6 * minute


def test_state_that_nothing_drops_and_that_keeps_growing_is_told_with_its_size_and_growth() -> None:
    warnings = DataWarnings()
    (found,) = growing(warnings, steadily, range(1, 30))
    assert (found.node, found.kind, found.subject) == ("totals", "growing-state", "groups")
    (now,) = warnings.current
    assert "nothing drops its state groups, and it keeps growing: 79.0 MB, by " in now.text
    assert now.text.endswith("or give it room (`state: {backend: disk}`)")
    assert now.since_ms == found.since_ms, "since when it grows does not change with its text"

    (on_disk,) = growing(DataWarnings(), steadily, range(1, 30), replace(GROWING, on_disk=True))
    assert on_disk.text.endswith("or give it disk and storage")

    growing(warnings, lambda _: 79e6, range(30, 90))
    assert warnings.current == (), "it does not grow any more"


def test_state_that_something_drops_or_that_is_small_or_that_fills_up_is_as_expected() -> None:
    assert growing(DataWarnings(), steadily, range(1, 30), WatchedPlan()) == []
    assert growing(DataWarnings(), lambda minute: 1e5 * minute, range(1, 30)) == []
    assert growing(DataWarnings(), lambda minute: 1e9 * (1 - 0.7**minute), range(1, 30)) == []
    assert growing(DataWarnings(), steadily, range(1, 9)) == [], "too early"
