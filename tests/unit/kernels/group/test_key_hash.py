"""Key hashes by the kernel: bit for bit those that checkpoints are kept by; rows by the subtask that owns them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import keygroups
from headrace.core.group_ranges import subtask_of
from headrace.core.keygroups import key_groups
from headrace.kernels.group.key_hash import key_hash, split_order

TYPES: dict[str, tuple[pl.DataType, st.SearchStrategy[object]]] = {
    "i": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
    "n": (pl.Int32(), st.integers(-(2**31), 2**31 - 1)),
    "f": (pl.Float64(), st.floats()),
    "g": (pl.Float32(), st.floats(width=32)),
    "s": (pl.String(), st.text(max_size=80)),
    "b": (pl.Binary(), st.binary(max_size=80)),
    "d": (pl.Date(), st.dates()),
    "t": (pl.Datetime("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "p": (pl.Decimal(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    "z": (pl.Boolean(), st.booleans()),
}


@st.composite
def keyed(draw: st.DrawFn) -> tuple[pl.DataFrame, list[str]]:
    keys = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    count = draw(st.integers(0, 20))
    columns = []
    for key in keys:
        dtype, values = TYPES[key]
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        columns.append(pl.Series(key, drawn, dtype=dtype))
    frame = pl.DataFrame([pl.Series("other", range(count)), *columns])
    cut = draw(st.integers(0, count))
    parted = pl.concat([frame[:cut], frame[cut:]], rechunk=False)
    # two chunks, in every column or in some, and one that begins inside of its buffers
    unlike = frame.with_columns(parted.select(keys[:1]).to_series())
    return draw(st.sampled_from([frame, parted, unlike, frame[cut:]])), keys


@given(keyed())
def test_hashes_are_those_of_the_definition(drawn: tuple[pl.DataFrame, list[str]]) -> None:
    frame, keys = drawn
    assert key_hash(frame, keys).tolist() == keygroups.key_hash(frame, keys).tolist()


@given(keyed(), st.sampled_from([(1, 1), (3, 7), (4, 128), (128, 128), (5, 32_768)]))
def test_rows_come_by_their_subtask_and_in_order(
    drawn: tuple[pl.DataFrame, Sequence[str]], sizes: tuple[int, int]
) -> None:
    frame, keys = drawn
    parallelism, max_parallelism = sizes
    found = split_order(frame, keys, parallelism, max_parallelism)
    assert found is not None
    order, counts = found
    targets = [
        subtask_of(int(group), parallelism, max_parallelism) for group in key_groups(frame, keys, max_parallelism)
    ]
    assert order.tolist() == np.argsort(targets, kind="stable").tolist()
    assert counts.tolist() == np.bincount(np.array(targets, np.int64), minlength=parallelism).tolist()


def test_without_kernels_there_is_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.kernels.group.key_hash.is_loaded", lambda: False)
    frame = pl.DataFrame({"k": [1, 2, 3]})
    assert split_order(frame, ["k"], 2, 128) is None
    assert key_hash(frame, ["k"]).tolist() == keygroups.key_hash(frame, ["k"]).tolist()
