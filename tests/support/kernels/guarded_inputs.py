"""Arrow columns of byte strings whose every buffer ends at an unreadable page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from support.kernels.guarded import guarded_copy

TYPES = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())
LARGE = (pa.large_binary(), pa.large_string())


def guarded_column(values: Sequence[bytes | None], dtype: pa.DataType, before: Sequence[bytes | None] = ()) -> pa.Array:
    """A column of these values; `before`: values in the buffers that lie in front of the column's first."""
    whole = [*before, *values]
    width = np.int64 if dtype in LARGE else np.int32
    ends = np.array(list(accumulate((len(value or b"") for value in whole), initial=0)), width)
    valid = None
    if None in whole:
        valid = _buffer(np.packbits([value is not None for value in whole], bitorder="little").tobytes())
    buffers = [valid, _buffer(ends.tobytes()), _buffer(b"".join(value or b"" for value in whole))]
    return pa.Array.from_buffers(dtype, len(values), buffers, offset=len(before))


def _buffer(data: bytes) -> pa.Buffer:
    memory = guarded_copy(data)
    return pa.foreign_buffer(memory.address, memory.size, memory)


def columns(
    values: st.SearchStrategy[Sequence[bytes | None]], types: Sequence[pa.DataType]
) -> st.SearchStrategy[pa.Array]:
    """Columns of these values, some of them slices."""
    before = st.lists(st.none() | st.binary(max_size=3), max_size=12)
    return st.builds(guarded_column, values, st.sampled_from(types), before)
