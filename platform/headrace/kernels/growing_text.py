"""The text that an encoding kernel writes for the rows of a frame, in a buffer that grows while it is full.

The buffer has an estimated size. It is cut if more than a quarter of it is unused.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pyarrow as pa

from headrace.kernels.library import Kernel

_WASTE_SHARE = 4
"""A text buffer is cut if more than 1 / `_WASTE_SHARE` of it is unused."""


class Status(IntEnum):
    """`enum status` of encoding kernels."""

    DONE = 0
    FULL = 1
    DOUBT = 2


def growing_text(write: Kernel, state: Any, address: int, guess: int) -> list[pa.Buffer | None] | None:
    """The buffers of one text per row, as an Arrow large_string or large_binary has them; None with doubt.

    state  a structure at `address`, with the fields `row_count`, `fixed_bytes_max`, `ends`, `text`, `text_bytes_max`,
           `text_bytes`, `row` and `missing`
    guess  of the bytes of all rows together
    """
    ends = pa.allocate_buffer((state.row_count + 1) * 8)
    text = pa.allocate_buffer(guess + state.fixed_bytes_max, resizable=True)
    state.ends, state.text, state.text_bytes_max = ends.address, text.address, text.size
    while (status := write(address)) == Status.FULL:
        text.resize(_grown(state))
        state.text, state.text_bytes_max = text.address, text.size
    if status != Status.DONE:
        return None
    used = state.text_bytes
    text.resize(used, shrink_to_fit=(text.size - used) * _WASTE_SHARE > text.size)
    return [None, ends, text]


def _grown(state: Any) -> int:
    """The next size of the text buffer: an estimate for all rows from the mean length of the rows written so far. At
    most twice the current size, unless a single text needs more."""
    least: int = state.text_bytes_max + state.missing
    most: int = state.text_bytes_max * 2
    if state.row:
        most = min(most, state.text_bytes * state.row_count // state.row * 9 // 8 + state.fixed_bytes_max)
    return max(least, most)
