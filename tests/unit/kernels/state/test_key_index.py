"""The index of keys, the words that runs are sorted by, and the sort, against plain Python and numpy."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.state import key_index as module
from headrace.kernels.state.key_index import KeyIndex, Words, sorted_order
from support.kernels.group_frames import KEY_TYPES, Group, column, in_pieces
from support.kernels.run_frames import in_normal_form, keys_of


def keyed_frame(random: Random, rows: int) -> pl.DataFrame:
    types = [random.choice([*KEY_TYPES, pl.Float64(), pl.Float32()]) for _ in range(random.choice([1, 1, 2, 4]))]
    spread = random.choice([1, 5, max(1, rows)])
    keys = [in_normal_form(column(random, dtype, rows, spread=spread)).alias(f"k{n}") for n, dtype in enumerate(types)]
    return pl.DataFrame([pl.Series("other", range(rows)), *keys])


@given(st.integers(0, 2**32), st.sampled_from([0, 1, 5, 300, 1500]))
def test_keys_are_numbered_as_they_appear(seed: int, rows: int) -> None:
    random = Random(seed)
    frame = keyed_frame(random, rows)
    names = frame.columns[1:]
    index = KeyIndex([(name, frame.schema[name]) for name in names])
    for _ in range(2):  # a cleared index is as new
        expected: dict[Group, int] = {}
        for piece in in_pieces(random, frame):
            keys = keys_of(piece, names)
            assert index.find(piece).tolist() == [expected.get(key, -1) for key in keys]
            numbers = [expected.setdefault(key, len(expected)) for key in keys]
            assert index.keys <= len(expected)
            assert index.number(piece).tolist() == numbers
            assert index.keys == len(expected)
        assert index.find(frame).tolist() == [expected[key] for key in keys_of(frame, names)]
        index.clear()
        assert index.keys == 0


def test_many_keys_grow_the_index() -> None:
    keys = np.random.default_rng(3).permutation(200_000)
    index = KeyIndex([("k", pl.Int64())])
    empty_bytes = index.size_bytes
    assert index.number(pl.DataFrame({"k": keys})).tolist() == list(range(200_000))
    assert index.size_bytes > empty_bytes + 200_000 * 16
    assert index.find(pl.DataFrame({"k": keys[::-1]})).tolist() == list(range(200_000))[::-1]
    assert index.find(pl.DataFrame({"k": [-1]})).tolist() == [-1]


def test_texts_of_a_megabyte_are_keys() -> None:
    frame = pl.DataFrame({"k": ["x" * 1_000_000 + "a", "", None, "x" * 1_000_000 + "b", "x" * 13, "x" * 12]})
    index = KeyIndex([("k", pl.String())])
    assert index.number(frame).tolist() == [0, 1, 2, 3, 4, 5]
    assert index.number(frame[::-1]).tolist() == [5, 4, 3, 2, 1, 0]
    assert index.size_bytes > 2_000_000


def test_keys_of_another_type_are_refused() -> None:
    index = KeyIndex([("k", pl.Int64())])
    with pytest.raises(AssertionError, match="has the keys"):
        index.number(pl.DataFrame({"k": ["1"]}))
    with pytest.raises(AssertionError, match="has the keys"):
        index.find(pl.DataFrame({"k": ["1"]}))
    with pytest.raises(AssertionError, match="have forms"):
        KeyIndex([("k", pl.Boolean())])


@st.composite
def words(draw: st.DrawFn) -> Words:
    """Hashes, or words that are alike in some of their bytes; in parts of the array or all of it."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.sampled_from([0, 1, 2, 31, 33, 300, 5_000, 70_000]))
    mask = draw(st.sampled_from([2**64 - 1, 0, 3, 0xFF << 56, 0x0F0F << 40, 2**20 - 1, 0xFF000000000000FF]))
    drawn = random.integers(0, 2**64, count, dtype=np.uint64) & np.uint64(mask)
    if draw(st.booleans()):
        drawn[: count // 2] = draw(st.sampled_from([0, 2**64 - 1]))
    return np.sort(drawn) if draw(st.booleans()) else drawn


@given(words())
def test_rows_are_sorted_as_by_numpy(drawn: Words) -> None:
    assert sorted_order(drawn).tolist() == np.argsort(drawn, kind="stable").tolist()


def test_without_kernels_numpy_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_loaded", lambda: False)
    order = sorted_order(np.array([3, 1, 3, 0], np.uint64))
    assert order.tolist() == [3, 1, 0, 2]
    assert order.dtype == np.dtype(np.uint32)
