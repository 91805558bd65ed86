"""What event time waits for, where it stands still while windows are open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from headrace.coordinator.figures.data_warnings import DataWarnings
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.standing_time import STANDS_MS, StandingTime, Waiting
from headrace.coordinator.figures.watched_plan import WatchedPlan, WatchedSource
from headrace.core.signals import TIME_MIN
from headrace.rpc.figures import PartitionFigures, SlotFigures, SourceFigures, WindowFigures
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus

NOW_MS = 1_714_550_400_000
"""2024-05-01 08:00:00."""
TIME, END = NOW_MS - 3_600_000, NOW_MS - 3_500_000
S, OTHER = WatchedSource("s", timed=True, task="s"), WatchedSource("o", timed=True, task="o")
PLAN = WatchedPlan((S, OTHER), (), {"w": ("s",), "both": ("s", "o")})


def partition(
    number: int, watermark: int | None = TIME, *, quiet_ms: int = 40_000, lag: int = 0, idle: bool = False
) -> PartitionFigures:
    return PartitionFigures(
        topic="t", partition=number, position=1, lag=lag, watermark=watermark, idle=idle, quiet_ms=quiet_ms
    )


def report(
    at_ms: int,
    *,
    time: int | None = TIME,
    node: str = "w",
    opened: bool = True,
    partitions: Iterable[PartitionFigures] = (partition(0),),
    others: Iterable[PartitionFigures] = (),
    emitted: tuple[int, int] = (TIME, TIME),
    ended: bool = False,
    queued: int = 0,
    backpressured: float = 0.0,
) -> SlotStatus:
    """A slot's report. time: where the step stands; emitted: watermarks of sources `s` and `o`; ended: that `s` has."""
    shown = {"s": tuple(partitions), "o": tuple(others)}
    return SlotStatus(
        subtasks=(
            SubtaskStatus(task="s", subtask=0, ended=ended, backpressured=backpressured),
            SubtaskStatus(task="o", subtask=0),
            SubtaskStatus(task="w", subtask=0, rows_queued=queued),
        ),
        sources=tuple(
            SourceSubtaskStatus(source=name, subtask=0, active_height=None, has_splits=True, watermark=own, lag=0)
            for name, own in zip(shown, emitted, strict=True)
        ),
        figures=SlotFigures(
            at_ms=at_ms,
            sources=tuple(SourceFigures(source=name, total=len(own), partitions=own) for name, own in shown.items()),
            windows=(WindowFigures(node=node, watermark=time, next_end=END),) if opened else (),
        ),
    )


def seen(*reports: SlotStatus, plan: WatchedPlan = PLAN) -> tuple[Waiting, ...]:
    """What waits after these reports of one slot, one after the other."""
    standing, figures = StandingTime(), JobFigures()
    found: tuple[Waiting, ...] = ()
    for each in reports:
        assert each.figures is not None
        figures.take(0, each)
        found = standing.look(plan, figures, [each], NOW_MS + each.figures.at_ms)
    return found


def on(last: SlotStatus, plan: WatchedPlan = PLAN) -> str:
    """What time waits for at a report whose step's time has not moved since its first second."""
    assert last.figures is not None and last.figures.windows
    first = last.model_copy(update={"figures": last.figures.model_copy(update={"at_ms": 1_000})})
    (found,) = seen(first, last, plan=plan)
    return found.on


# ---- when ------------------------------------------------------------------------------------------------------------


def test_time_that_stands_is_reported_after_half_a_minute_with_the_moment_since_when() -> None:
    assert seen(report(1_000), report(STANDS_MS + 999)) == ()
    (found,) = seen(report(1_000), report(STANDS_MS + 1_000))
    assert (found.node, found.since_ms, found.next_end, found.source) == ("w", NOW_MS + 1_000, END, "s")


def test_a_step_of_the_wall_clock_makes_nothing_wait() -> None:
    standing, figures = StandingTime(), JobFigures()
    for at_ms, now_ms in ((1_000, NOW_MS), (2_000, NOW_MS + 3_600_000)):
        figures.take(0, report(at_ms))
        assert standing.look(PLAN, figures, [report(at_ms)], now_ms) == ()


def test_time_that_moves_does_not_stand() -> None:
    assert seen(report(1_000), report(20_000, time=TIME + 1), report(40_000, time=TIME + 1)) == ()
    assert seen(report(1_000, time=None), report(40_000, time=TIME)) == ()


def test_nothing_waits_without_open_windows_and_the_wait_begins_when_one_opens() -> None:
    closed = report(1_000, opened=False)
    assert seen(closed, report(100_000, opened=False)) == ()
    assert seen(closed, report(50_000), report(60_000)) == ()
    assert seen(report(1_000), report(20_000, opened=False), report(30_000), report(40_000)) == ()
    (found,) = seen(closed, report(50_000), report(90_000))
    assert found.since_ms == NOW_MS + 50_000


# ---- what for --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ((partition(0), partition(3, TIME - 60_000)), "partition 3 of t (source s), which has had no row since "),
        ((partition(0), partition(3, None)), "partition 3 of t (source s), which never had a row"),
        ((partition(0), partition(3, None, lag=1_200)), "partition 3 of t (source s), which has 1,200 messages left"),
        ((partition(0), partition(3, TIME - 60_000, quiet_ms=50)), "newer rows of partition 3 of t (source s)"),
        ((partition(0, idle=True), partition(3, None)), "partition 3 of t (source s), which never had a row"),
        ((partition(0), partition(3, TIME - 10)), "the next row of source s"),
        ((partition(0), partition(3, None, idle=True)), "the next row of source s"),
        ((partition(0, idle=True), partition(3, None, idle=True)), "the next row of source s: all of its partitions"),
        ((partition(0, None), partition(3, None)), "the first row of source s"),
        ((), "the first row of source s"),
    ],
)
def test_the_partition_that_holds_time_back_or_the_source(partitions: tuple[PartitionFigures, ...], text: str) -> None:
    assert on(report(60_000, partitions=partitions)).startswith(text)


def test_the_last_row_of_a_partition_is_named_by_the_clock() -> None:
    quiet = on(report(60_000, partitions=(partition(0), partition(3, TIME - 60_000, quiet_ms=60_000))))
    assert quiet.endswith("no row since 2024-05-01 08:00:00")


def test_of_two_sources_the_slower_one() -> None:
    late = report(60_000, node="both", emitted=(TIME + 5_000, TIME), others=(partition(1),))
    assert on(late) == "the next row of source o"
    assert (
        on(report(60_000, node="both", emitted=(TIME, TIME + 1), others=(partition(1),))) == "the next row of source s"
    )
    never = report(60_000, time=None, node="both", emitted=(TIME, TIME_MIN), others=(partition(1, None),))
    assert on(never) == "the first row of source o"


def test_an_ended_source_holds_nothing_back() -> None:
    ended = report(
        60_000, node="both", ended=True, emitted=(TIME, TIME + 5_000), time=TIME + 5_000, others=(partition(1),)
    )
    assert on(ended) == "the next row of source o"
    assert on(report(60_000, ended=True)) == "rows that are on their way to it"


def test_rows_on_their_way_hold_time_back_where_the_source_is_further_or_waits_for_them() -> None:
    behind = report(60_000, emitted=(TIME + 5_000, TIME), queued=12_000)
    assert on(behind) == "12,000 rows queued at subtask 0 of w"
    read = (partition(0, lag=7),)
    assert on(report(60_000, partitions=read, queued=12_000, backpressured=0.9)).startswith("12,000 rows queued")
    assert on(report(60_000, partitions=read, queued=12_000)).startswith("partition 0 of t (source s), which has 7")
    # rows flow past a partition that holds time back: it is the partition
    quiet = (partition(0), partition(3, None))
    assert on(report(60_000, partitions=quiet, queued=12, backpressured=0.9)).startswith("partition 3 of t")


def test_the_remedy_fits_the_settings() -> None:
    held = report(60_000, partitions=(partition(0), partition(3, None)))
    first = report(1_000, partitions=(partition(0), partition(3, None)))
    set_already = replace(PLAN, sources=(replace(S, idle_after_ms=300_000), OTHER))
    (without,), (with_it,) = seen(first, held), seen(first, held, plan=set_already)
    assert (without.remedy, with_it.remedy[:28]) == (
        "set `idle_after: 30s` in its `time:`",
        "it counts as idle after 5m w",
    )
    (last_window,) = seen(report(1_000), report(60_000))
    assert "stop --drain" in last_window.remedy and "idle_after" not in last_window.remedy


# ---- the warning -----------------------------------------------------------------------------------------------------


def judged(warnings: DataWarnings, figures: JobFigures, each: SlotStatus) -> list[str]:
    assert each.figures is not None
    figures.take(0, each)
    return [found.text for found in warnings.judge(PLAN, figures, [each], NOW_MS + each.figures.at_ms)]


def test_the_warning_says_since_when_which_window_and_what_for_and_goes_when_time_moves() -> None:
    warnings, figures = DataWarnings(), JobFigures()
    assert judged(warnings, figures, report(0)) == []
    (text,) = judged(warnings, figures, report(60_000))
    assert text == (
        "w: event time stands still since 2024-05-01 08:00:00, and the window that ends at 2024-05-01 07:01:40 waits "
        "for the next row of source s; a row after that end closes it, or the end of the input (`stop --drain`)"
    )
    assert judged(warnings, figures, report(61_000)) == [], "once in an attempt"
    assert [each.kind for each in warnings.current] == ["standing-time"]
    assert judged(warnings, figures, report(62_000, time=TIME + 1)) == []
    assert not warnings.current and not warnings.waiting


def test_the_warning_names_what_time_waits_for_now_and_is_logged_once() -> None:
    warnings, figures = DataWarnings(), JobFigures()
    judged(warnings, figures, report(0))
    assert len(judged(warnings, figures, report(60_000))) == 1
    assert judged(warnings, figures, report(61_000, emitted=(TIME + 5_000, TIME), queued=12)) == []
    (standing,) = warnings.current
    assert "waits for 12 rows queued at subtask 0 of w; " in standing.text


def test_a_quiet_partition_is_warned_about_once_and_still_waited_for() -> None:
    warnings, figures = DataWarnings(), JobFigures()
    held = (partition(0), partition(3, TIME - 60_000))
    judged(warnings, figures, report(0, partitions=held))
    judged(warnings, figures, report(60_000, partitions=held))
    assert [each.kind for each in warnings.current] == ["quiet-partition"]
    assert [each.node for each in warnings.waiting] == ["w"]


# ---- several inputs --------------------------------------------------------------------------------------------------


def of_gate(*subtasks: tuple[int | None, int | None], queued: int = 0) -> SlotStatus:
    """A report with subtasks of the task `g`: their watermarks, and the inputs that they wait for."""
    last = report(60_000, queued=queued, emitted=(TIME + 1, TIME + 1) if queued else (TIME, TIME))
    gates = tuple(
        SubtaskStatus(task="g", subtask=index, watermark=watermark, waits_for_input=number)
        for index, (watermark, number) in enumerate(subtasks)
    )
    return last.model_copy(update={"subtasks": (*last.subtasks, *gates)})


def test_the_input_that_the_slowest_subtask_of_a_node_with_several_waits_for_is_named() -> None:
    gated = replace(PLAN, gates={"w": "g"})
    assert on(of_gate((TIME + 5, 0), (TIME, 1)), gated).startswith("input 1 of g: the next row of source s")
    assert on(of_gate((TIME, 0), (None, 2)), gated).startswith("input 2 of g: ")
    assert on(of_gate((TIME, None)), gated).startswith("the next row of source s")
    assert on(of_gate((TIME, 1))).startswith("the next row of source s"), "no such node is between"


def test_no_input_is_named_while_rows_are_on_their_way() -> None:
    assert on(of_gate((TIME, 1), queued=3), replace(PLAN, gates={"w": "g"})).startswith("3 rows queued")
