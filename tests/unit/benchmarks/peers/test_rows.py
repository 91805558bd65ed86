"""The data: the same each time, readable by every parser, and the right results over it."""

from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest
from peers import events, wide_rows
from peers.check import parsed
from peers.expected import RESULTS, expected, input_rows
from peers.jobs import JOBS, WINDOW_MS, Name, Work, sized


def test_messages_are_their_rows() -> None:
    narrow, wide = events.frame(1_000, 100), wide_rows.frame(1_000)
    assert parsed(events.messages(narrow), events.SCHEMA).equals(narrow)
    assert parsed(wide_rows.messages(wide), wide_rows.schema()).equals(wide)


def test_wide_rows_have_twenty_fields_of_all_types_and_the_size_that_their_job_names() -> None:
    (chunk,) = wide_rows.messages(wide_rows.frame(10_000))
    assert len(wide_rows.TYPES) == 20
    assert set(json.loads(chunk[0])) == set(wide_rows.TYPES)
    assert f"{round(sum(map(len, chunk)) / len(chunk), -1):.0f}-byte" in JOBS[Name.WIDE].title


def test_rows_are_the_same_each_time_whatever_the_job() -> None:
    for job in JOBS.values():
        few = sized(job, 0.0001)
        assert input_rows(few).equals(input_rows(few))


def test_windows_count_every_row_once() -> None:
    job = sized(JOBS[Name.K], 0.001)
    rows = input_rows(job)
    found = expected(job, rows)
    plain = Counter((k, ts - ts % WINDOW_MS) for k, ts in zip(rows["k"], rows["ts"], strict=True))
    assert {(k, w): n for k, w, n, _ in found.iter_rows()} == plain
    assert found["s"].to_numpy().sum() == pytest.approx(rows["v"].to_numpy().sum())


def test_filters_keep_about_half_in_the_types_of_their_json() -> None:
    for name in (Name.P, Name.WIDE):
        job = sized(JOBS[name], 0.005)
        found = expected(job, input_rows(job))
        assert dict(found.schema.items()) == RESULTS[job.work]
        assert abs(found.height / job.rows - 0.5) < 0.05
    assert RESULTS[Work.WIDE]["lines"].is_nested()
    assert isinstance(RESULTS[Work.WIDE]["price"], pl.String)
