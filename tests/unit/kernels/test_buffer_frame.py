"""Frames of buffers that Arrow allocates: what keeps which memory."""

from __future__ import annotations

import gc

import numpy as np
import polars as pl
import pyarrow as pa
from polars.testing import assert_frame_equal

from headrace.kernels.state.runs import RunColumns, gather


def gathered(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows, in buffers of Arrow."""
    numbers = np.arange(frame.height, dtype=np.uint32)
    return gather([RunColumns(frame, (), None)], np.zeros(frame.height, np.int32), numbers, frame.columns)


def allocated_bytes() -> int:
    both: int = pa.total_allocated_bytes() + pa.system_memory_pool().bytes_allocated()
    return both


def test_texts_that_are_still_referred_to_keep_no_other_columns() -> None:
    rows = 100_000
    frame = pl.DataFrame({"a": range(rows), "text": ["x" * 20] * rows, "b": range(rows), "whole": range(rows)})
    frame = frame.with_columns(pl.col("whole").cast(pl.Int128))
    before = allocated_bytes()
    made = gathered(frame)
    assert_frame_equal(made, frame)
    assert allocated_bytes() - before > rows * (8 + 8 + 16 + 36)
    chosen = made[pl.Series([rows - 1, 0], dtype=pl.UInt32)]
    del made
    gc.collect()
    assert allocated_bytes() - before < rows * 40, "only views and texts are left"
    assert chosen["text"].to_list() == ["x" * 20] * 2


def test_columns_of_texts_only_keep_their_order() -> None:
    frame = pl.DataFrame({"a": ["1", None], "b": [b"2", None], "c": ["3", "more than twelve bytes"]})
    assert_frame_equal(gathered(frame), frame)
