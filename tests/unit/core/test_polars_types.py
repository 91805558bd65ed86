"""Integers of 128 bits come back from Arrow as they were."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.polars_types import INT128_IN_ARROW, int128_columns, with_int128, without_int128

MOST = 10**38 - 1


@given(st.lists(st.one_of(st.none(), st.integers(-MOST, MOST))))
def test_integers_of_128_bits_become_decimals_and_come_back(values: list[int | None]) -> None:
    frame = pl.DataFrame({"n": pl.Series(values, dtype=pl.Int128), "k": pl.Series([1] * len(values), dtype=pl.Int64)})
    assert int128_columns(frame.schema) == ["n"]
    plain = without_int128(frame)
    assert plain.schema == {"n": INT128_IN_ARROW, "k": pl.Int64}
    assert [None if each is None else int(each) for each in plain["n"]] == values

    arrow = plain.to_arrow(compat_level=pl.CompatLevel.newest())
    again = pl.from_arrow(arrow, rechunk=False)
    assert isinstance(again, pl.DataFrame)
    assert with_int128(again, ["n"]).equals(frame)


def test_frames_without_them_stay_what_they_are() -> None:
    frame = pl.DataFrame({"k": [1, 2]})
    assert without_int128(frame).equals(frame)
    assert with_int128(frame, []).equals(frame)
