"""Messages as an Arrow column: drops tombstones, selects messages, assembles results.

Owns the handling of Arrow's binary layouts for all formats. Must not know the content of messages.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.connect.format import Decoded
from headrace.core.arrow_arrays import mask_of, number_array

Indices = npt.NDArray[np.int64]


def live_messages(values: pa.Array) -> tuple[pa.Array, Indices | None]:
    """The messages that are not tombstones, and their indices; None if all are. Views become plain arrays."""
    if pa.types.is_binary_view(values.type):
        # `nbytes` counts bytes that views share once, and a cast to `binary` wraps beyond 2 GiB without an error
        values = values.cast(pa.large_binary())
    if values.null_count == 0:
        return values, None
    index = np.flatnonzero(mask_of(values.is_valid()))
    return values.drop_null(), index.astype(np.int64, copy=False)


def take(values: pa.Array, index: Indices) -> pa.Array:
    """The messages at `index`."""
    return values.take(number_array(index))


def assemble(
    total: int,
    live: Indices | None,
    rows: pl.DataFrame,
    good: Indices | None,
    bad: dict[int, str],
) -> Decoded:
    """The result for `total` messages of which `live` were decoded.

    `good` and the keys of `bad` index the live messages; None: all live ones are good.
    """
    live_count = total if live is None else len(live)
    bad_index = np.fromiter(sorted(bad), dtype=np.int64, count=len(bad))
    reasons = tuple(bad[int(index)] for index in bad_index)
    if live is not None:
        good = live if good is None else live[good]
        bad_index = live[bad_index]
    assert rows.height + len(bad) == live_count, "every message is good, bad or a tombstone"
    assert good is None or len(good) == rows.height, "each good row has its message"
    return Decoded(rows, good, bad_index, reasons, skipped=total - live_count)
