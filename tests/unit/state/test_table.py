from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state import runs as kernel
from headrace.state import table
from headrace.state.table import Table

KEYS = ["name", "number"]
SCHEMA = {"name": pl.String(), "number": pl.Int64(), "sum": pl.Int64(), "most": pl.Int64()}
Row = tuple[str | None, int | None, int, int | None]
names = st.sampled_from([None, "", "a", "b", "twelve bytes", "more than twelve bytes", "x" * 1_000])
rows = st.tuples(names, st.sampled_from([None, 0, 1, -1, 1 << 62]), st.integers(-9, 9), st.none() | st.integers(-9, 9))
batches = st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=30)


def merge(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, how="diagonal").group_by(KEYS).agg(pl.col("sum").sum(), pl.col("most").max())


def frame(batch: Sequence[Row]) -> pl.DataFrame:
    return merge([pl.DataFrame(batch, schema=SCHEMA, orient="row")])


def oracle(batches: Sequence[Sequence[Row]]) -> dict[tuple[str | None, int | None], tuple[int, int | None]]:
    found: dict[tuple[str | None, int | None], tuple[int, int | None]] = {}
    for batch in batches:
        for name, number, plus, most in batch:
            total, greatest = found.get((name, number), (0, None))
            known = [value for value in (greatest, most) if value is not None]
            found[name, number] = (total + plus, max(known, default=None))
    return found


def contents(frames: Sequence[pl.DataFrame]) -> dict[tuple[str | None, int | None], tuple[int, int | None]]:
    return {(name, number): (total, most) for name, number, total, most in merge(frames).rows()} if frames else {}


WAYS = ["kernel", "joins", "colliding"]


@contextmanager
def searched_by(way: str) -> Iterator[None]:
    """Runs are searched by the kernel, by joins, or by the kernel with hashes of two bits."""
    with pytest.MonkeyPatch.context() as patched:
        if way == "joins":
            patched.setattr(kernel, "fits", lambda schema, keys: False)
        if way == "colliding":
            patched.setattr(table, "key_hash", lambda rows, keys: key_hash(rows, keys) & np.uint64(3))
        yield


@pytest.mark.parametrize("way", WAYS)
@given(batches, st.data())
def test_a_table_finds_what_was_added(way: str, added: list[list[Row]], data: st.DataObject) -> None:
    with searched_by(way):
        found_what_was_added(added, data)


def found_what_was_added(added: list[list[Row]], data: st.DataObject) -> None:
    kept = Table(KEYS, merge)
    for batch in added:
        kept.add(frame(batch), frames_max=data.draw(st.integers(1, 5)))
        if data.draw(st.booleans()):
            kept.seal()
        if data.draw(st.integers(0, 9)) == 0:
            before = [rows for _, rows in kept.numbered()]
            kept = Table(KEYS, merge)
            kept.restore(before)
    expected = oracle(added)
    assert contents([rows for _, rows in kept.numbered()]) == expected
    asked = frame(data.draw(st.lists(rows, min_size=1, max_size=9))).select(KEYS)
    wanted = {key: value for key, value in expected.items() if key in set(asked.rows())}
    assert contents(kept.get(asked)) == wanted
    kept.seal()
    assert contents(kept.get_sealed(asked)) == wanted
    whole = kept.compact()
    assert whole.height == len(expected) == kept.rows
    assert contents([whole]) == expected
    assert contents(kept.get(asked)) == wanted


@given(batches)
def test_a_number_always_means_the_same_rows(added: list[list[Row]]) -> None:
    kept = Table(KEYS, merge)
    seen: dict[int, pl.DataFrame] = {}
    for batch in added:
        kept.add(frame(batch), frames_max=3)
        for number, rows in kept.numbered():
            assert seen.setdefault(number, rows).equals(rows)


@pytest.mark.parametrize("way", WAYS)
def test_runs_may_differ_in_columns(way: str) -> None:
    with searched_by(way):
        found_in_runs_with_other_columns()


def found_in_runs_with_other_columns() -> None:
    kept = Table(["k"], lambda frames: pl.concat(frames, how="diagonal").group_by("k").sum())
    for batch in ({"k": [1, 2], "a": [1, 1]}, {"k": [2, 3], "b": [5, 5]}, {"k": [1], "a": [7], "b": [7]}):
        kept.add(pl.DataFrame(batch))
        kept.seal()
    found = pl.concat(kept.get(pl.DataFrame({"k": [1, 2, 4]})), how="diagonal").group_by("k").sum().sort("k")
    assert found.rows(named=True) == [{"k": 1, "a": 8, "b": 7}, {"k": 2, "a": 1, "b": 5}]


def test_without_keys_all_rows_belong_together() -> None:
    kept = Table([], lambda frames: pl.concat(frames).sum())
    for number in range(10):
        kept.add(pl.DataFrame({"n": [number]}), frames_max=2)
    asked = pl.DataFrame()
    assert sum(rows.item() for rows in kept.get(asked)) == 45
    assert kept.compact().item() == 45


def test_recent_rows_are_bounded_in_frames_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "ROWS_RECENT_MAX", 10)
    one = pl.DataFrame({"k": [1], "n": [1]})
    kept = Table(["k"], lambda frames: pl.concat(frames).group_by("k").sum())
    for _ in range(9):
        kept.add(one)
    assert (kept.runs, kept.rows) == (0, 9)
    kept.add(one)
    assert (kept.runs, kept.rows) == (1, 1), "ten rows are sealed"
    for _ in range(3):
        kept.add(one, frames_max=3)
    assert (kept.runs, kept.rows) == (2, 2), "three frames are sealed"


def test_restored_rows_are_bounded_in_runs() -> None:
    """An engine that reads state when keys arrive restores it bit by bit."""
    kept = Table(["k"], lambda frames: pl.concat(frames).group_by("k").sum())
    for number in range(100):
        kept.restore([pl.DataFrame({"k": [number], "n": [1]})])
        assert kept.runs <= table.RUNS_MAX
    assert kept.compact().height == 100
