"""Rows compared pile by pile come to the same as rows compared whole, with little in memory at a time."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from headrace.core.batch import OP, TS
from headrace.core.errors import ExternalError
from headrace.core.last_rows import last_rows
from headrace.core.types import schema_of
from headrace.local.comparison import spilled_rows
from headrace.local.comparison.row_equality import RowsCompared, compare_rows
from headrace.local.comparison.spilled_rows import DEPTH_MAX, SpilledRows, compare_spilled

SCHEMA = schema_of({"k": "int64", "x": "float64", "xs": "[float64]", "s": "{a: float64, b: string}"})
FLOATS = st.sampled_from([0.0, -0.0, math.nan, 1.5, None])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2]),
        FLOATS,
        st.none() | st.lists(FLOATS, max_size=2),
        st.none() | st.fixed_dictionaries({"a": FLOATS, "b": st.sampled_from([None, "", "é"])}),
        st.booleans(),
    ),
    max_size=12,
)
Row = tuple[object, ...]


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, pl.Schema(SCHEMA.polars() | {OP: pl.Boolean()}), orient="row")


def side(folder: Path, rows: pl.DataFrame, key: tuple[str, ...] | None, *, buffer_bytes: int = 1) -> SpilledRows:
    spilled = SpilledRows(folder, SCHEMA, key, buffer_bytes=buffer_bytes)
    for part in rows.iter_slices(3):
        # deletes are rare: a batch without them goes without the column
        spilled.add(part.with_columns(pl.lit(1).alias(TS)) if part[OP].any() else part.drop(OP))
    return spilled.finished()


def assert_same(found: RowsCompared, wanted: RowsCompared) -> None:
    assert (found.equal, found.missing, found.extra) == (wanted.equal, wanted.missing, wanted.extra)
    for one, other in (
        (found.missing_examples, wanted.missing_examples),
        (found.extra_examples, wanted.extra_examples),
    ):
        assert_frame_equal(one, other, check_row_order=False)


@given(ROWS, ROWS, st.sampled_from([None, ("k",), ("k", "x"), ()]), st.booleans(), st.sampled_from([0, 1 << 20]))
def test_as_compared_whole(
    left: list[Row], right: list[Row], key: tuple[str, ...] | None, shared: bool, pile_bytes_max: int
) -> None:
    one, other = frame(left), frame([*left, *right] if shared else right)
    if key is None:
        expected, actual = (rows.filter(~pl.col(OP)).drop(OP) for rows in (one, other))
    else:
        expected, actual = last_rows(one, key), last_rows(other, key)
    with tempfile.TemporaryDirectory() as folder:
        here, there = side(Path(folder, "a"), one, key), side(Path(folder, "b"), other, key)
        found = compare_spilled(here, there, pile_bytes_max=pile_bytes_max)
    assert_same(found, compare_rows(expected, actual))


def test_little_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, piles = 4_000, 8
    rows = frame([]).clear(count).with_columns(k=pl.int_range(pl.len()), **{OP: pl.lit(value=False)})
    changed = rows.with_columns(x=pl.when(pl.col("k") % 200 == 7).then(1.0))
    heights: list[int] = []

    def counted(expected: pl.DataFrame, actual: pl.DataFrame) -> RowsCompared:
        heights.append(expected.height + actual.height)
        return compare_rows(expected, actual)

    monkeypatch.setattr(spilled_rows, "compare_rows", counted)
    monkeypatch.setattr(spilled_rows, "PILES", piles)
    here, there = (
        SpilledRows(tmp_path / name, SCHEMA, ("k",), buffer_bytes=100_000).finished() for name in ("here", "there")
    )
    for part, other in zip(rows.iter_slices(500), changed.iter_slices(500), strict=True):
        here.add(part)
        there.add(other)
    found = compare_spilled(here.finished(), there.finished())
    assert max(heights) < 2 * 2 * count / piles
    assert sum(heights) == 2 * count
    assert (found.equal, found.missing, found.extra) == (count - 20, 20, 20)
    assert found.missing_examples["k"].to_list() == list(range(7, count, 200))
    heights.clear()
    divided = (side(tmp_path / f"{name}2", rows, None, buffer_bytes=100_000) for name in ("here", "there"))
    assert compare_spilled(*divided, pile_bytes_max=8_000).same
    assert max(heights) < 2 * 2 * count / piles / piles, "piles were divided"


def test_one_row_many_times_is_not_divided_for_ever(tmp_path: Path) -> None:
    rows = frame([(1, 1.0, None, None, False)] * 100)
    here, there = (side(tmp_path / name, rows, None) for name in ("here", "there"))
    assert compare_spilled(here, there, pile_bytes_max=0).equal == 100
    depth = max(len(path.relative_to(tmp_path).parts) for path in tmp_path.rglob("*.rows"))
    assert depth == DEPTH_MAX + 2


def test_types_that_differ_are_told(tmp_path: Path) -> None:
    here = side(tmp_path / "here", frame([(1, 1.0, None, None, False)]), None)
    there = SpilledRows(tmp_path / "there", schema_of({"k": "int64"}), None)
    there.add(pl.DataFrame({"k": [1, 2]}))
    found = compare_spilled(here, there.finished())
    assert not found.same
    assert found.types[0] == "x: Float64 and no such column"
    assert (found.missing, found.extra) == (1, 2)


def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError, match="TMPDIR"):
        side(tmp_path / "file" / "folder", frame([(1, 1.0, None, None, False)]), None)
