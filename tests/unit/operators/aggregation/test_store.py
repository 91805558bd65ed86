from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.aggregation.store import FRAMES_MAX, PartialStore
from support.suite.properties import weighted


def merge(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames).group_by("k").agg(pl.col("n").sum())


@weighted(0.2)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=300))
def test_many_small_frames_stay_few_and_keep_what_they_hold(keys: list[int]) -> None:
    store = PartialStore(merge)
    for key in keys:
        store.append(pl.DataFrame({"k": [key], "n": [1]}))
        assert len(store.frames) < 2 * FRAMES_MAX
        assert sum(frame.height for frame in store.frames) <= FRAMES_MAX + 2 * 31
    whole = dict(store.compact().rows())
    assert whole == {key: keys.count(key) for key in set(keys)}
    assert len(store.frames) == 1
