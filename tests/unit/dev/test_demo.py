"""The demonstration's own parts: the log that it makes of the flights, and the check that it believes."""

from __future__ import annotations

import importlib.util
import io
import json
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.errors import UserError
from headrace_dev.demo.flights import AIRPORTS, COLUMNS, FlightLog, flight_log, load_flights, write_lines
from headrace_dev.demo.flow import PIPELINE, Expected, compare, expected_results
from support.repository import ROOT

LAG = timedelta(minutes=30)


def table(rows: int, seed: int) -> pl.DataFrame:
    """Made flights, as the package's table has them: a few days, delays up to five hours."""
    draw = random.Random(seed)
    hours = sorted(datetime(2013, 3, 9, tzinfo=UTC) + timedelta(hours=draw.randrange(48)) for _ in range(rows))
    return pl.DataFrame(
        {
            "dep_delay": [draw.choice([None, -5, 0, 3, 45, 100, 300]) for _ in hours],
            "carrier": [draw.choice(["AA", "UA"]) for _ in hours],
            "flight": list(range(rows)),
            "origin": [draw.choice(AIRPORTS) for _ in hours],
            "dest": ["SFO" for _ in hours],
            "minute": [draw.randrange(60) for _ in hours],
            "time_hour": [f"{hour:%Y-%m-%dT%H:%M:%SZ}" for hour in hours],
        },
        schema_overrides={"dep_delay": pl.Int64},
    )


@pytest.fixture
def log() -> FlightLog:
    return flight_log(table(600, seed=1))


@pytest.fixture
def expected(log: FlightLog) -> Expected:
    return expected_results(log.rows, 1_800_000)


def test_flights_are_reported_when_they_depart(log: FlightLog) -> None:
    reported = [row["scheduled"] + timedelta(minutes=row["dep_delay"] or 0) for row in log.rows.iter_rows(named=True)]
    assert reported == sorted(reported)
    assert not log.rows.get_column("scheduled").is_sorted()


def test_a_message_holds_the_row(log: FlightLog) -> None:
    for row, message in zip(log.rows.head(50).iter_rows(named=True), log.messages, strict=False):
        told = json.loads(message)
        assert list(told) == list(COLUMNS)
        assert datetime.fromisoformat(told.pop("scheduled")) == row["scheduled"]
        assert told == {name: row[name] for name in told}
        assert AIRPORTS[row["partition"]] == row["origin"]


def test_fewer_rows_are_the_first_to_be_reported(log: FlightLog) -> None:
    fewer = flight_log(table(600, seed=1), rows_max=10)
    assert fewer.messages == log.messages[:10]
    assert sum(fewer.ends.values()) == 10
    assert set(fewer.ends) == {0, 1, 2}


def test_lines_have_the_airport_for_a_key(log: FlightLog) -> None:
    out = io.BytesIO()
    write_lines(out, log)
    first = out.getvalue().splitlines()[0]
    assert first == log.rows.item(0, "origin").encode() + b"\t" + log.messages[0]


def test_the_batch_query_is_that_of_plain_python(log: FlightLog, expected: Expected) -> None:
    highest: dict[int, datetime] = {}
    groups: dict[tuple[Any, ...], list[int]] = {}
    late = []
    for row in log.rows.iter_rows(named=True):
        at = row["scheduled"]
        highest[row["partition"]] = max(at, highest.get(row["partition"], at))
        start = at.replace(minute=0)
        end = start + timedelta(hours=1)
        if row["dep_delay"] is None:
            continue
        if end - timedelta(milliseconds=1) <= highest[row["partition"]] - LAG - timedelta(milliseconds=1):
            late.append(row["flight"])
        else:
            groups.setdefault((row["origin"], row["carrier"], start, end), []).append(row["dep_delay"])
    assert late
    assert sorted(late) == sorted(expected.late.get_column("flight"))
    assert sorted(expected.windows.rows()) == sorted(
        (*key, len(delays), float(Fraction(sum(delays), len(delays))), float(max(delays)))
        for key, delays in groups.items()
    )


def test_equal_results_have_no_differences(expected: Expected) -> None:
    check = compare(expected, expected.windows.reverse(), expected.late.sample(fraction=1, shuffle=True, seed=1))
    assert check.differences == ()
    assert (check.windows, check.late) == (expected.windows.height, expected.late.height)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows.tail(-1), ["1 window rows missing"]),
        (lambda rows: pl.concat([rows, rows.head(1)]), ["1 window rows missing", "1 window rows not expected"]),
        (
            lambda rows: (
                rows.with_columns(mean_delay=pl.col("mean_delay") * (1 + 2**-52)).head(1).vstack(rows.tail(-1))
            ),
            ["1 window rows missing", "1 window rows not expected"],
        ),
        (
            lambda rows: rows.with_columns(flights=pl.col("flights") + (pl.int_range(pl.len()) == 3)),
            ["1 window rows missing", "1 window rows not expected"],
        ),
    ],
    ids=["lost", "doubled", "last-bit", "count"],
)
def test_any_difference_is_told(expected: Expected, change: Any, told: list[str]) -> None:
    windows = expected.windows.filter(pl.col("mean_delay") != 0)
    only = Expected(windows, expected.late)
    differences = compare(only, change(windows), expected.late).differences
    assert [text.split(",")[0] for text in differences] == told


def test_a_late_flight_that_is_not_there_is_told(expected: Expected) -> None:
    (difference,) = compare(expected, expected.windows, expected.late.tail(-2)).differences
    assert difference.startswith("2 late flight rows missing, such as origin ")


def test_without_the_package_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'headrace\[demo\]'"):
        load_flights()


def test_the_example_is_the_pipeline_that_the_demonstration_runs() -> None:
    carried = ROOT / Path("platform/headrace_dev/demo", PIPELINE)
    assert (ROOT / "examples" / PIPELINE).read_text() == carried.read_text()
