"""Partial aggregates have one row per group; totals by key against merges of all frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.group.group_by import Action, Aggregate, Grouping, GroupTable, KeyColumn
from headrace.kernels.library import is_loaded
from headrace.operators.aggregates import columns, compiled
from headrace.operators.aggregates.compiled import TOTALS_BYTES_MAX, CompiledGroups, Totals
from headrace.state.place import Budget

pytestmark = pytest.mark.skipif(not is_loaded(), reason="kernels are switched off")
KEYS = ["k", "t"]
STATE = {"__sum.n.rows": pl.Int64, "__sum.x.e0": pl.Int64, "__sum.x.e-32": pl.Int64, "__max.ts": pl.Int64}


def test_keys_with_more_text_than_a_frame_holds_are_one_row_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "GroupTable", partial(GroupTable, text_bytes_max=20_000))
    aggregates = (Aggregate(Action.COUNT_ROWS, "__sum.n.rows"), Aggregate(Action.LIMBS, "__sum.x", "x", pl.Float64()))
    groups = CompiledGroups(Grouping((KeyColumn("k", pl.String()),), aggregates))
    keys = [f"a key of more than twelve bytes {row % 512:05}" for row in range(1024)]
    # the frames have different limbs
    rows = pl.DataFrame({"k": keys, "x": [1.0] * 512 + [2.0**40] * 512})
    found = groups.partial(rows, ["k"])
    assert sorted(found["k"]) == sorted(set(keys))
    assert found["__sum.n.rows"].unique().to_list() == [2]


def partials(random: Random) -> pl.DataFrame:
    """Partial rows of distinct keys, with some of the state columns."""
    rows = random.randint(1, 30)
    keys = {
        "k": pl.Series([random.choice([None, 1, 2, 3]) for _ in range(rows)], dtype=pl.Int64),
        "t": pl.Series([random.choice([None, "a", "a text of some length"]) for _ in range(rows)], dtype=pl.String),
    }
    names = ["__sum.n.rows", *random.sample(list(STATE), random.randint(0, len(STATE)))]
    state = {name: pl.Series([random.randint(-9, 9) for _ in range(rows)], dtype=pl.Int64) for name in names}
    return pl.DataFrame({**keys, **state}).unique(KEYS, keep="any", maintain_order=True)


def rows_with(frames: Sequence[pl.DataFrame], keys: pl.DataFrame) -> list[pl.DataFrame]:
    found = [frame.join(keys, on=keys.columns, how="semi", nulls_equal=True) for frame in frames]
    return [frame for frame in found if frame.height]


@given(st.integers(0, 2**32), st.sampled_from([2, 1 << 18]))
def test_totals_are_what_a_merge_of_all_frames_gives(seed: int, added_max: int) -> None:
    random, frames, asked = Random(seed), list[pl.DataFrame](), list[pl.DataFrame]()

    def earlier(keys: pl.DataFrame) -> list[pl.DataFrame]:
        asked.append(keys)
        return rows_with(frames, keys)

    totals = Totals(KEYS, earlier, Budget().cache(TOTALS_BYTES_MAX))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_ADDED_MAX", added_max)
        for _ in range(8):
            if random.random() < 0.3:
                totals.forget()
                frames.append(partials(random))
                asked.clear()
            frame = partials(random)
            found = totals.updated(frame)
            frames.append(frame)
            assert found is not None
            assert found.select(KEYS).equals(frame.select(KEYS))
            assert not asked or pl.concat(asked).is_unique().all(), "a key is asked for once"
            expected = columns.merge(frames, KEYS)
            for name in expected.columns:
                if name.startswith(columns.SUM):
                    expected = expected.with_columns(pl.col(name).fill_null(0))
            same = found.select(KEYS).join(expected, on=KEYS, how="left", nulls_equal=True, maintain_order="left")
            there = [name for name in expected.columns if name in found.columns]
            assert found.select(there).equals(same.select(there))
            rest = same.select(name for name in expected.columns if name not in there)
            assert all(series.is_null().all() or (series == 0).all() for series in rest)


@pytest.mark.parametrize("limb", [1 << 44, -(1 << 51), (1 << 62) + 1])
@pytest.mark.parametrize("added_max", [2, 1 << 18])
@pytest.mark.parametrize("forgotten", [False, True])
def test_totals_of_large_limbs_do_not_wrap(
    monkeypatch: pytest.MonkeyPatch, limb: int, added_max: int, *, forgotten: bool
) -> None:
    monkeypatch.setattr(compiled, "_ADDED_MAX", added_max)
    frames, frame = list[pl.DataFrame](), pl.DataFrame({"k": [1], "__sum.x.e0": [limb]})
    totals = Totals(["k"], partial(rows_with, frames), Budget().cache(TOTALS_BYTES_MAX))
    for added in range(1, 9):
        if forgotten:
            totals.forget()
        found = totals.updated(frame)
        frames.append(frame)
        assert found is not None
        limbs = {name: found[name][0] for name in found.columns if name.startswith(columns.SUM)}
        assert sum(value << int(name.rpartition(".e")[2]) for name, value in limbs.items()) == added * limb


def test_totals_end_where_the_kernel_lacks_a_merge() -> None:
    totals = Totals(["k"], lambda keys: [], Budget().cache(1 << 20))
    assert totals.updated(pl.DataFrame({"k": [1], "__sum.n.rows": [1]})) is not None
    assert totals.is_on
    assert totals.updated(pl.DataFrame({"k": [1], "__min.s": ["a"]})) is None
    assert not totals.is_on
    assert totals.updated(pl.DataFrame({"k": [1], "__sum.n.rows": [1]})) is None


def test_totals_end_where_an_earlier_row_lacks_a_merge() -> None:
    totals = Totals(["k"], lambda keys: [pl.DataFrame({"k": [1], "__min.s": ["a"]})], Budget().cache(1 << 20))
    assert totals.updated(pl.DataFrame({"k": [1], "__sum.n.rows": [1]})) is None
    assert not totals.is_on


def test_totals_that_are_full_are_small_once_forgotten() -> None:
    totals = Totals(["k"], lambda keys: [], Budget().cache(1 << 20))
    assert not totals.is_full
    totals.updated(pl.DataFrame({"k": range(100_000), "__sum.n.rows": [1] * 100_000}))
    assert totals.is_full
    totals.forget()
    totals.updated(pl.DataFrame({"k": [1], "__sum.n.rows": [1]}))
    assert not totals.is_full
