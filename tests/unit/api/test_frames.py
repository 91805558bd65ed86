"""Streams as frames: the first rows of any step, all rows of a bounded input, and how a notebook shows a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import headrace as hr
from headrace.api.builder import PREVIEWS_MAX, upstream_of
from headrace.core.errors import DataError, InvalidPipelineError, UserError
from headrace.local.inspection.preview import Preview

ROWS = [
    {"station": "a", "minutes": 10, "started": "2024-05-01T08:05:00Z"},
    {"station": "b", "minutes": 4, "started": "2024-05-01T08:10:00Z"},
    {"station": "a", "minutes": 20, "started": "2024-05-01T09:00:00Z"},
    {"station": "a", "minutes": 1, "started": "2024-05-01T08:59:00Z"},
]


@pytest.fixture
def pipeline() -> hr.Pipeline:
    return hr.Pipeline("rides")


@pytest.fixture
def rides(pipeline: hr.Pipeline, tmp_path: Path) -> hr.Stream:
    path = tmp_path / "rides.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return pipeline.source(
        "rides",
        files={"path": str(path)},
        format="json",
        schema={"station": "string not null", "minutes": "int64", "started": "timestamp not null"},
        time={"column": "started"},
    )


def endless(pipeline: hr.Pipeline) -> hr.Stream:
    return pipeline.source(
        "numbers", generator={"rate": 1_000, "columns": {"n": {"sequence": {}}}}, schema={"n": "int64"}
    )


def test_the_first_rows_of_a_source_and_of_a_step(rides: hr.Stream) -> None:
    assert rides.preview(rows=2).get_column("minutes").to_list() == [10, 4]
    long = rides.filter("long", "minutes > 5").select("times", {"half": "minutes / 2"})
    frame = long.preview()
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dict(as_series=False) == {"half": [5.0, 10.0]}


def test_an_endless_source_is_previewed_by_rows_and_by_time(pipeline: hr.Pipeline) -> None:
    numbers = endless(pipeline)
    assert numbers.preview(rows=3).get_column("n").to_list() == [0, 1, 2]
    assert numbers.filter("none", "n < 0").preview(seconds=0.3).shape == (0, 1)


def test_all_rows_of_a_bounded_input(rides: hr.Stream) -> None:
    hourly = rides.aggregate("hourly", key_by=["station"], window={"tumbling": "1h"}, aggregate={"rides": "count(*)"})
    rows = hourly.collect().sort("window_start", "station")
    assert rows.select("station", "rides").rows() == [("a", 1), ("b", 1), ("a", 1)]
    assert hourly.late.collect().get_column("minutes").to_list() == [1]


def test_an_updating_stream_is_collected_as_its_last_rows(rides: hr.Stream) -> None:
    totals = rides.aggregate("totals", key_by=["station"], aggregate={"minutes": "sum(minutes)"})
    assert totals.collect().sort("station").rows() == [("a", 31), ("b", 4)]


def test_what_cannot_be_collected(pipeline: hr.Pipeline, rides: hr.Stream) -> None:
    with pytest.raises(UserError, match="source numbers does not end") as refused:
        endless(pipeline).filter("some", "n > 0").collect()
    assert "preview" in (refused.value.remedy or "")
    with pytest.raises(UserError, match="more than 3 rows"):
        rides.collect(rows_max=3)
    assert rides.collect(rows_max=4).height == 4


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"seconds": 0.0}])
def test_a_preview_of_nothing_is_refused(rides: hr.Stream, wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="preview of rides"):
        rides.preview(**wrong)


def test_only_the_nodes_behind_a_stream_must_be_right(rides: hr.Stream) -> None:
    wrong = rides.filter("wrong", "minuets > 5")
    assert rides.preview(rows=1).height == 1
    with pytest.raises(InvalidPipelineError, match="minuets"):
        wrong.preview()
    with pytest.raises(InvalidPipelineError, match="minuets"):
        wrong.collect()


def test_data_that_fails_raises_as_a_run_does(pipeline: hr.Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("{}\n")
    bad = pipeline.source("bad", files={"path": str(path)}, format="json", schema={"n": "int64 not null"})
    with pytest.raises(DataError, match="bad"):
        bad.preview()


def test_a_stream_shows_its_columns_and_its_preview(rides: hr.Stream) -> None:
    assert repr(rides) == "<Stream rides of rides>"
    before = rides._repr_html_()
    assert "<td style='text-align:left'>station</td><td style='text-align:left'>string not null</td>" in before
    assert "2024-05-01" not in before

    rides.preview(rows=1)
    assert "2024-05-01" in rides._repr_html_()
    assert repr(rides).startswith("<Stream rides of rides>\nshape: (1, 3)")


def test_a_stream_that_is_not_right_shows_why(rides: hr.Stream) -> None:
    assert "minuets" in rides.filter("wrong", "minuets > 5 and '<b>' = 'x'")._repr_html_()


def test_names_are_text_in_html(tmp_path: Path) -> None:
    odd = hr.Pipeline("p").source("s", files={"path": str(tmp_path)}, format="json", schema={"<b>x": "int64"})
    assert "&lt;b&gt;x" in odd._repr_html_()


def test_a_bounded_number_of_previews_is_kept(rides: hr.Stream) -> None:
    streams = [rides.filter(f"f{n}", "minutes > 0") for n in range(PREVIEWS_MAX + 1)]
    for stream in streams:
        rides.pipeline._previews.keep(stream.reference, first := _preview(rides))
    assert rides.pipeline._previews.find("f0") is None
    assert rides.pipeline._previews.find(streams[-1].reference) is first


def _preview(rides: hr.Stream) -> Preview:
    from headrace.api.builder import first_rows

    return first_rows(rides.pipeline.to_dict(), "rides", rows=1, seconds=5.0)


DATA: dict[str, Any] = {
    "name": "p",
    "parallelism": 2,
    "sources": {"a": {"x": 1}, "b": {"x": 2}, "c": {"x": 3}},
    "steps": {
        "f": {"from": "a", "filter": "n > 0"},
        "u": {"union": ["f", "b"]},
        "w": {"from": "u", "aggregate": {}},
        "late": {"from": "w.late", "drop": ["n"]},
        "other": {"from": "c", "drop": ["n"]},
    },
    "sinks": {"out": {"from": "w"}},
    "tests": [{"name": "t"}],
}


@pytest.mark.parametrize(
    ("reference", "sources", "steps"),
    [
        ("a", {"a"}, set()),
        ("f", {"a"}, {"f"}),
        ("w", {"a", "b"}, {"f", "u", "w"}),
        ("w.late", {"a", "b"}, {"f", "u", "w"}),
        ("late", {"a", "b"}, {"f", "u", "w", "late"}),
        ("other", {"c"}, {"other"}),
    ],
)
def test_only_what_rows_come_from_is_kept(reference: str, sources: set[str], steps: set[str]) -> None:
    kept = upstream_of(DATA, reference)
    assert set(kept["sources"]) == sources and set(kept.get("steps", {})) == steps
    assert "sinks" not in kept and "tests" not in kept and kept["parallelism"] == 2
    assert ("steps" in kept) == bool(steps), "an empty section is a mistake in a file"
