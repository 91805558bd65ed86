"""Rows of a batch: slices and gathered frames are those of the whole; one gather serves all parts."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.exchange.edge.rows import Rows, frames_of

BATCH = pl.DataFrame({"n": range(10), "text": [f"a text that is too long to be inlined {n}" for n in range(10)]})


def test_all_rows_are_the_batch_itself() -> None:
    rows = Rows.all_of(BATCH)
    assert rows.gathered() is BATCH
    assert (rows.height, rows.bytes) == (10, BATCH.estimated_size())


@given(st.permutations(range(10)), st.integers(0, 10), st.integers(0, 12), st.booleans())
def test_a_slice_has_its_rows_in_order(order: list[int], begin: int, length: int, is_whole: bool) -> None:
    rows = Rows(BATCH, None if is_whole else np.array(order, np.uint32), 1_000)
    expected = (BATCH if is_whole else BATCH[order])[begin : begin + length]
    part = rows.slice(begin, length)
    assert part.gathered().equals(expected)
    assert (part.height, part.bytes) == (expected.height, 100 * expected.height)


@given(st.permutations(range(10)), st.lists(st.integers(1, 4), max_size=3))
def test_frames_of_parts_are_those_of_each(order: list[int], sizes: list[int]) -> None:
    rows = Rows(BATCH, np.array(order, np.uint32), 1_000)
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    split = [(end, rows.slice(end - size, size)) for end, size in zip(ends, sizes, strict=True) if end <= 10]
    assert [(target, frame.rows()) for target, frame in frames_of(split)] == [
        (target, part.gathered().rows()) for target, part in split
    ]


def test_frames_of_whole_batches_are_the_batches() -> None:
    ((target, frame),) = frames_of([(3, Rows.all_of(BATCH))])
    assert target == 3
    assert frame is BATCH
