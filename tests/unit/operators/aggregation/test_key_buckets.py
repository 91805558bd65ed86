"""Buckets of keyed state."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.keygroups import key_hash
from headrace.operators.aggregation import running
from headrace.operators.aggregation.deltas import Place
from headrace.operators.aggregation.running import WHOLE, cut_by_bucket, touched_buckets

places = st.integers(0, 4).flatmap(lambda power: st.tuples(st.just(1 << power), st.integers(0, (1 << power) - 1)))


def keyed(keys: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"key": keys}, schema={"key": pl.Int64})


@given(st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)), st.sets(places), st.integers(1, 20))
def test_every_row_once_where_its_hash_says(
    first: list[int], second: list[int], buckets: set[Place], rows_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "BUCKET_ROWS_MAX", rows_max)
        cut = list(cut_by_bucket([keyed(first), keyed(second)], ["key"], buckets))
    for number, given_rows in enumerate((first, second)):
        assert Counter(key for _, parts in cut for key in parts[number]["key"].to_list()) == Counter(given_rows)
    for place, parts in cut:
        for part in parts:
            assert touched_buckets(part, ["key"], {place}) == ({place} if part.height else set())
        keys = {key for part in parts for key in part["key"].to_list()}
        assert sum(part.height for part in parts) <= rows_max or len(keys) == 1
    assert len({place for place, _ in cut}) == len(cut)


@given(st.lists(st.integers(0, 1000), min_size=1), st.sets(places))
def test_touched_are_those_whose_keys_are_there(keys: list[int], buckets: set[Place]) -> None:
    hashes = [int(each) for each in key_hash(keyed(keys), ["key"])]
    expected = {(modulus, number) for modulus, number in buckets if any(h % modulus == number for h in hashes)}
    assert touched_buckets(keyed(keys), ["key"], buckets) == expected


def test_without_keys_there_is_one() -> None:
    assert [place for place, _ in cut_by_bucket([keyed([1, 2])], [], ())] == [WHOLE]
    assert touched_buckets(keyed([1]), [], {WHOLE}) == {WHOLE}
    assert list(cut_by_bucket([keyed([])], ["key"], ())) == []
