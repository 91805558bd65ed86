"""Windows of local time against the definition: a boundary is the first minute at which the clocks show it or more."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.window.assigner import Span, windows_of
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.operators.window.local_time import LocalDays
from support.suite.properties import weighted

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
EPOCH = datetime(1970, 1, 1)
FORWARD = [
    ("Europe/Berlin", "2024-03-31T01:00"),
    ("Asia/Beirut", "2022-03-26T22:00"),
    ("America/St_Johns", "2006-04-02T03:31"),
    ("Australia/Lord_Howe", "2024-10-05T15:30"),
    ("Africa/Casablanca", "2024-04-14T02:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("Asia/Pyongyang", "2018-05-04T15:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
]
BACK = [
    ("Europe/Berlin", "2024-10-27T01:00"),
    ("America/New_York", "2024-11-03T06:00"),
    ("America/Havana", "2022-11-06T05:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("America/St_Johns", "2006-10-29T02:31"),
    ("Australia/Lord_Howe", "2024-04-06T15:00"),
    ("Antarctica/Troll", "2024-10-27T01:00"),
]
CHANGES = [*BACK, *FORWARD]
LONG: list[Window] = [
    *(Tumbling(size) for size in (2 * HOUR, 3 * HOUR, 6 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY)),
    *(Sliding(2 * HOUR, every) for every in (MINUTE, 15 * MINUTE, HOUR)),
    *(Sliding(DAY, every) for every in (45 * MINUTE, 6 * HOUR, 12 * HOUR)),
    Sliding(3 * DAY, DAY),
    Sliding(2 * DAY, 3 * HOUR),
    *(Cumulate(6 * HOUR, every) for every in (5 * MINUTE, HOUR, 3 * HOUR)),
    *(Cumulate(DAY, every) for every in (15 * MINUTE, 6 * HOUR, 12 * HOUR)),
    *(Cumulate(2 * DAY, every) for every in (16 * HOUR, DAY)),
    Cumulate(7 * DAY, DAY),
]
"""Windows at least as long as the time by which clocks go back."""
SHORT: list[Window] = [
    Tumbling(15 * MINUTE),
    Tumbling(5 * MINUTE),
    Sliding(15 * MINUTE, 5 * MINUTE),
    Cumulate(15 * MINUTE, MINUTE),
]


def instant(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@cache
def highest_readings(zone: str, day: int) -> list[int]:
    """For each minute of 30 days around a UTC day: the greatest reading of the clocks so far, in ms since 1970."""
    first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day - 15)
    shown = (
        (first + timedelta(minutes=minute)).astimezone(ZoneInfo(zone)).replace(tzinfo=None) - EPOCH
        for minute in range(30 * 1440)
    )
    return list(itertools.accumulate((round(reading / timedelta(milliseconds=1)) for reading in shown), max))


def boundary(zone: str, day: int, reading: int) -> int:
    return (day - 15) * DAY + bisect_left(highest_readings(zone, day), reading) * MINUTE


def plain_windows(window: Window, zone: str, moment: int) -> list[Span]:
    """All windows that contain a moment, in order, by trying every reading around it."""
    day, found = moment // DAY, set[Span]()
    every = window.size_ms if isinstance(window, Tumbling | Cumulate) else window.every_ms
    latest = (moment + 2 * DAY - window.offset_ms) // every * every + window.offset_ms
    for start in range(latest, latest - window.size_ms - 5 * DAY, -every):
        steps = window.every_ms if isinstance(window, Cumulate) else window.size_ms
        for end in range(start + steps, start + window.size_ms + 1, steps):
            span = boundary(zone, day, start), boundary(zone, day, end)
            if span[0] <= moment < span[1]:
                found.add(span)
    return sorted(found, key=lambda span: (span[1], span[0]))


def placed(window: Window, zone: str, offset: int) -> Window:
    return type(window)(
        **{name: getattr(window, name) for name in window.__slots__} | {"timezone": zone, "offset_ms": offset}
    )


@weighted(0.5)
@given(
    st.tuples(st.sampled_from(CHANGES), st.sampled_from(LONG))
    | st.tuples(st.sampled_from(FORWARD), st.sampled_from(SHORT)),
    st.integers(-50 * 60, 50 * 60),
    st.sampled_from([0, 0, HOUR, 6 * HOUR]),
)
def test_windows_follow_the_wall_clock(case: tuple[tuple[str, str], Window], minutes: int, offset: int) -> None:
    (zone, at), window = case
    moment = instant(at) + minutes * MINUTE
    window = placed(window, zone, offset)
    assert window.check() == []
    assigner = window.assigner()
    pane = int(assigner.panes(np.array([moment], dtype=np.int64))[0])
    spans = list(windows_of(assigner, pane))
    assert spans == plain_windows(window, zone, moment)
    assert pane <= moment < assigner.pane_end(pane)
    for after in {spans[0][1] - 1, spans[len(spans) // 2][1] - 1, spans[-1][1] - 1, spans[-1][1] - MINUTE}:
        assert assigner.first(pane, after) == next(span for span in spans if span[1] > after)


@given(
    st.sampled_from(BACK),
    st.sampled_from(SHORT),
    st.lists(st.integers(-50 * HOUR, 50 * HOUR), min_size=1, max_size=20),
)
def test_short_windows_are_those_of_utc_where_clocks_go_back(
    change: tuple[str, str], window: Window, places: list[int]
) -> None:
    zone, at = change
    times = np.array([instant(at) + place for place in places], dtype=np.int64)
    here, there = placed(window, zone, 0).assigner(), window.assigner()
    assert here.panes(times).tolist() == there.panes(times).tolist()
    for pane in here.panes(times).tolist():
        assert list(windows_of(here, pane)) == list(windows_of(there, pane))


@given(
    st.sampled_from(CHANGES),
    st.sampled_from(LONG),
    st.lists(st.integers(-50 * HOUR, 50 * HOUR), min_size=1, max_size=20),
)
def test_batches_are_divided_as_single_times_are(change: tuple[str, str], window: Window, places: list[int]) -> None:
    zone, at = change
    times = np.array([instant(at) + place for place in places], dtype=np.int64)
    window = placed(window, zone, 0)
    single = [int(window.assigner().panes(times[i : i + 1])[0]) for i in range(times.size)]
    assert window.assigner().panes(times).tolist() == single


def test_the_zone_is_not_asked_for_each_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of a day that slides by a second: 86,400 windows a pane, and no look at the zone for each."""
    asked = 0
    wall = LocalDays._wall

    def counted(self: LocalDays, times: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += 1
        return wall(self, times)

    monkeypatch.setattr(LocalDays, "_wall", counted)
    assigner = Sliding(DAY, 1_000, timezone="Europe/Berlin").assigner()
    start = instant("2024-06-01T12:00")
    for second in range(5_000):
        pane = start + second * 1_000
        assert assigner.last(pane) == (pane, pane + DAY)
        assert assigner.first(pane) == (pane + 1_000 - DAY, pane + 1_000)
        assert assigner.following((pane, pane + DAY)) == (pane + 1_000, pane + DAY + 1_000)
    assert asked < 10
