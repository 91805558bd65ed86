from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.aggregates.columns import merge

LANE = st.integers(-(2**60), 2**60) | st.sampled_from([2**44, -(2**44), 2**45, 0])
FRAMES = st.lists(
    st.tuples(
        st.sets(st.sampled_from([-64, -32, 0, 64]), min_size=1),
        st.lists(st.tuples(st.sampled_from("ab"), LANE), min_size=1),
    ),
    min_size=1,
    max_size=3,
)


@given(FRAMES.filter(lambda frames: sum(len(rows) for _, rows in frames) <= 6))
def test_limbs_carry_and_keep_the_sum(frames: list[tuple[set[int], list[tuple[str, int]]]]) -> None:
    expected = {"a": 0, "b": 0}
    made = []
    for units, rows in frames:
        for key, number in rows:
            expected[key] += sum(number << (unit + 64) for unit in units)
        keys, numbers = zip(*rows, strict=True)
        made.append(pl.DataFrame({"k": keys, **{f"__sum.x.e{unit}": numbers for unit in sorted(units)}}))
    merged = merge(made, ["k"])
    limbs = [name for name in merged.columns if name != "k"]
    for row in merged.rows(named=True):
        assert sum(row[name] << (int(name.rpartition("e")[2]) + 64) for name in limbs) == expected.pop(row["k"])
        assert all(abs(row[name]) <= 2**44 for name in limbs)
    assert not any(expected.values())


def test_columns_of_some_frames_only_count_as_nothing_elsewhere() -> None:
    frames = [
        pl.DataFrame({"k": [1, 2], "__sum.n.rows": [1, 2], "__min.v": [5, None]}),
        pl.DataFrame({"__sum.x.e0": [7], "__sum.n.rows": [1], "k": [2]}),
    ]
    assert merge(frames, ["k"]).sort("k").to_dicts() == [
        {"k": 1, "__sum.n.rows": 1, "__min.v": 5, "__sum.x.e0": 0},
        {"k": 2, "__sum.n.rows": 3, "__min.v": None, "__sum.x.e0": 7},
    ]
