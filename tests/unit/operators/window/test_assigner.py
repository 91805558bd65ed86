from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.window.assigner import Assigner, Span, windows_of
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window

HOUR, DAY = 3_600_000, 86_400_000
MOMENTS = st.integers(-50_000, 50_000)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def pane(assigner: Assigner, moment: int) -> int:
    return int(assigner.panes(np.array([moment], dtype=np.int64))[0])


def windows(window: Window, moment: int) -> tuple[Span, ...]:
    assigner = window.assigner()
    return tuple(windows_of(assigner, pane(assigner, moment)))


def local(zone: str, *spans: Span) -> list[str]:
    def text(moment: int) -> str:
        return (
            (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)).astimezone(ZoneInfo(zone)).isoformat()
        )

    return [f"{text(start)[:16]} {text(end)[:16]} {(end - start) / HOUR:g}h" for start, end in spans]


@given(st.data(), MOMENTS, st.integers(1, 200), st.integers(-300, 300))
def test_panes_are_where_windows_agree(data: st.DataObject, moment: int, every: int, offset: int) -> None:
    choices: list[Window] = [
        Tumbling(every, offset),
        Sliding(every + data.draw(st.integers(0, 900)), every, offset),
        Cumulate(every * data.draw(st.integers(1, 9)), every, offset),
    ]
    window = data.draw(st.sampled_from(choices))
    assert window.check() == []
    assigner = window.assigner()
    start = pane(assigner, moment)
    end = assigner.pane_end(start)
    assert start <= moment < end
    assert pane(assigner, end - 1) == start
    assert pane(assigner, end) == end
    spans = list(windows_of(assigner, start))
    assert list(spans) == sorted(spans, key=lambda span: (span[1], span[0]))
    assert all(span[0] <= start and end <= span[1] for span in spans)
    assert set(spans) != set(windows_of(assigner, end)), "the next pane belongs to other windows"


def _enumerated(window: Window, start: int) -> list[Span]:
    """The UTC windows that contain a moment, by their definition: from a list of all that are near."""
    match window:
        case Tumbling(size, offset):
            spans = [(at + offset, at + offset + size) for at in range(-5_000 // size * size, 5_000, size)]
        case Sliding(size, every, offset):
            spans = [(at + offset, at + offset + size) for at in range(-5_000 // every * every, 5_000, every)]
        case Cumulate(size, every, offset):
            begins = range(-5_000 // size * size, 5_000, size)
            spans = [(at + offset, at + offset + long) for at in begins for long in range(every, size + 1, every)]
    return sorted((span for span in spans if span[0] <= start < span[1]), key=lambda span: (span[1], span[0]))


@given(st.integers(-900, 900), st.integers(1, 40), st.integers(1, 6), st.integers(-50, 50), st.integers(-20, 300))
def test_windows_are_those_of_the_definition(moment: int, every: int, times: int, offset: int, later: int) -> None:
    windows_of_all: list[Window] = [
        Tumbling(every, offset),
        Sliding(every * times + every // 2, every, offset),
        Cumulate(every * times, every, offset),
    ]
    for window in windows_of_all:
        assigner = window.assigner()
        start = pane(assigner, moment)
        spans = _enumerated(window, start)
        assert list(windows_of(assigner, start)) == spans
        assert assigner.lasts([start]) == [spans[-1]]
        after = min(start + later, spans[-1][1] - 1)
        assert assigner.firsts([start], [after]) == [next(span for span in spans if span[1] > after)]


CALENDARS: list[Window] = [
    Tumbling(10, 3),
    Sliding(35, 10, 3),
    Sliding(40, 10),
    Sliding(7, 10),
    Cumulate(60, 10, -7),
    Tumbling(DAY, timezone="Europe/Berlin"),
    Tumbling(HOUR, timezone="Australia/Lord_Howe"),
    Cumulate(DAY // 4, HOUR, timezone="Europe/Berlin"),
    Sliding(DAY // 4, HOUR, timezone="Europe/Berlin"),
]


@given(st.sampled_from(CALENDARS), st.lists(st.tuples(st.integers(-60, 60), st.integers(-20, 90)), max_size=9))
def test_many_panes_at_once_have_what_each_has(window: Window, places: list[tuple[int, int]]) -> None:
    """Around the change of clocks of 2026-03-29 where a zone has one."""
    assigner, is_local = window.assigner(), getattr(window, "timezone", "UTC") != "UTC"
    unit, origin = (HOUR // 2, ms("2026-03-29T01:00:00+00:00")) if is_local else (7, 0)
    panes = [pane(assigner, origin + place * unit) for place, _ in places]
    after = [start + later * unit for start, (_, later) in zip(panes, places, strict=True)]
    firsts = [assigner.first(start, bound) for start, bound in zip(panes, after, strict=True)]
    lasts = [assigner.last(start) for start in panes]
    assert assigner.firsts(panes, after) == firsts
    assert assigner.firsts(panes, panes) == [assigner.first(start) for start in panes]
    assert assigner.lasts(panes) == lasts
    assert assigner.followings([*firsts, *lasts]) == [assigner.following(span) for span in (*firsts, *lasts)]


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (Tumbling(0), "more than 0"),
        (Sliding(10, 0), "every"),
        (Sliding(10, 11), "at most the size"),
        (Cumulate(10, 3), "must divide"),
        (Tumbling(DAY, timezone="Europe/Nowhere"), "IANA"),
        (Tumbling(7 * HOUR, timezone="Europe/Berlin"), "whole days or divide a day"),
        (Sliding(3 * HOUR, 2 * HOUR, timezone="Europe/Berlin"), "divide the size"),
        (Cumulate(36 * HOUR, HOUR, timezone="Europe/Berlin"), "whole days"),
    ],
)
def test_windows_that_mean_nothing_are_refused(window: Window, says: str) -> None:
    (problem,) = window.check()
    assert says in problem


def test_local_days_have_23_and_25_hours() -> None:
    day = Tumbling(DAY, timezone="Europe/Berlin")
    spring, autumn = windows(day, ms("2024-03-31T12:00+02:00")), windows(day, ms("2024-10-27T12:00+01:00"))
    assert local("Europe/Berlin", *spring, *autumn) == [
        "2024-03-31T00:00 2024-04-01T00:00 23h",
        "2024-10-27T00:00 2024-10-28T00:00 25h",
    ]


def test_parts_of_a_local_day_follow_the_clocks() -> None:
    window = Tumbling(12 * HOUR, timezone="Europe/Berlin")
    spring, autumn = ms("2024-03-31T01:00+01:00"), ms("2024-10-27T01:00+02:00")
    moments = [spring, spring + 12 * HOUR, autumn, autumn + 13 * HOUR]
    assert local("Europe/Berlin", *(windows(window, moment)[0] for moment in moments)) == [
        "2024-03-31T00:00 2024-03-31T12:00 11h",
        "2024-03-31T12:00 2024-04-01T00:00 12h",
        "2024-10-27T00:00 2024-10-27T12:00 13h",
        "2024-10-27T12:00 2024-10-28T00:00 12h",
    ]


def test_an_hour_that_clocks_repeat_is_one_window_and_a_skipped_one_is_none() -> None:
    window = Tumbling(HOUR, timezone="Europe/Berlin")
    spring, autumn = ms("2024-03-31T01:30+01:00"), ms("2024-10-27T02:30+02:00")
    assert windows(window, autumn) == windows(window, autumn + HOUR)
    assert local("Europe/Berlin", *windows(window, autumn), *windows(window, spring + HOUR)) == [
        "2024-10-27T02:00 2024-10-27T03:00 2h",
        "2024-03-31T03:00 2024-03-31T04:00 1h",
    ]
    assembled = window.assigner()
    assert assembled.following(windows(window, spring)[0]) == windows(window, spring + HOUR)[0]


def test_windows_shorter_than_a_change_of_the_clocks_take_no_notice_of_it() -> None:
    window = Sliding(HOUR // 2, HOUR // 4, timezone="Europe/Berlin")
    spans = windows(window, ms("2024-10-27T02:50+02:00"))
    assert local("Europe/Berlin", *spans) == [
        "2024-10-27T02:30 2024-10-27T02:00 0.5h",
        "2024-10-27T02:45 2024-10-27T02:15 0.5h",
    ]
    # Lord Howe's clocks change by half an hour only
    half = windows(Tumbling(HOUR // 2, timezone="Australia/Lord_Howe"), ms("2024-04-07T01:45+10:30"))
    assert local("Australia/Lord_Howe", *half) == ["2024-04-07T01:30 2024-04-07T02:00 1h"]


def test_a_day_begins_where_clocks_skip_midnight() -> None:
    # Beirut, 2022-03-27: 00:00 does not exist, clocks go from 23:59:59 to 01:00
    days = windows(Tumbling(DAY, timezone="Asia/Beirut"), ms("2022-03-27T12:00+03:00"))
    assert local("Asia/Beirut", *days) == ["2022-03-27T01:00 2022-03-28T00:00 23h"]


def test_a_day_begins_at_the_first_of_two_midnights() -> None:
    # Havana, 2022-11-06: clocks go from 00:59:59 back to 00:00
    days = windows(Tumbling(DAY, timezone="America/Havana"), ms("2022-11-06T12:00-05:00"))
    assert [end - start for start, end in days] == [25 * HOUR]
    assert days == windows(Tumbling(DAY, timezone="America/Havana"), ms("2022-11-06T00:30-05:00"))


def test_a_day_that_a_zone_skipped_has_no_window() -> None:
    # Apia went from 2011-12-29 to 2011-12-31
    before, after = ms("2011-12-29T23:59:59-10:00"), ms("2011-12-31T00:00+14:00")
    day = Tumbling(DAY, timezone="Pacific/Apia")
    assert local("Pacific/Apia", *windows(day, before), *windows(day, after)) == [
        "2011-12-29T00:00 2011-12-31T00:00 24h",
        "2011-12-31T00:00 2012-01-01T00:00 24h",
    ]


def test_local_sliding_windows_are_runs_of_local_days() -> None:
    spans = windows(Sliding(3 * DAY, DAY, timezone="Europe/Berlin"), ms("2024-03-31T12:00+02:00"))
    assert local("Europe/Berlin", *spans) == [
        "2024-03-29T00:00 2024-04-01T00:00 71h",
        "2024-03-30T00:00 2024-04-02T00:00 71h",
        "2024-03-31T00:00 2024-04-03T00:00 71h",
    ]


def test_local_cumulate_windows_end_with_the_local_day() -> None:
    spans = windows(Cumulate(DAY, 12 * HOUR, timezone="Europe/Berlin"), ms("2024-10-27T01:00+02:00"))
    assert local("Europe/Berlin", *spans) == [
        "2024-10-27T00:00 2024-10-27T12:00 13h",
        "2024-10-27T00:00 2024-10-28T00:00 25h",
    ]


def test_an_offset_moves_where_local_days_begin() -> None:
    days = windows(Tumbling(DAY, 6 * HOUR, timezone="Europe/Berlin"), ms("2024-03-31T05:00+02:00"))
    assert local("Europe/Berlin", *days) == ["2024-03-30T06:00 2024-03-31T06:00 23h"]


@given(
    st.lists(st.integers(ms("2010-01-01T00:00+00:00"), ms("2030-01-01T00:00+00:00")), min_size=1, max_size=5),
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "America/Havana", "Asia/Beirut", "Pacific/Apia", "Asia/Kolkata"]
    ),
    st.sampled_from([DAY, 7 * DAY, HOUR, 8 * HOUR, DAY // 96]),
)
def test_local_windows_tile_time(moments: list[int], zone: str, size: int) -> None:
    for window in (Tumbling(size, timezone=zone), Sliding(3 * size, size, timezone=zone)):
        if window.check():
            continue
        assigner = window.assigner()
        for moment, start in zip(moments, assigner.panes(np.array(moments, dtype=np.int64)).tolist(), strict=True):
            end = assigner.pane_end(start)
            assert start <= moment < end
            assert pane(assigner, end) == end
            assert pane(assigner, end - 1) == start
            assert all(span[0] <= start and end <= span[1] for span in windows_of(assigner, start))
        day = datetime.fromtimestamp(moments[0] / 1000, ZoneInfo(zone))
        if size == DAY and isinstance(window, Tumbling):
            start = pane(assigner, moments[0])
            assert datetime.fromtimestamp(start / 1000, ZoneInfo(zone)).date() <= day.date()
            assert abs(moments[0] - start) <= 25 * HOUR
