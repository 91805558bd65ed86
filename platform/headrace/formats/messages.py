"""Messages as an Arrow column: drops tombstones and joins messages, without a Python object per message.

Owns the handling of Arrow's binary layouts for all formats; knows nothing of a message's content.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.format import Decoded
from headrace.core.arrow_arrays import binary_array, mask_of, number_array

Indices = npt.NDArray[np.int64]
_NEWLINE = binary_array([b"\n"])[0]
JOIN_BYTES_MAX = (1 << 31) - 1
"""Capacity in bytes of an Arrow binary array with 32-bit offsets."""


def live_messages(values: pa.Array) -> tuple[pa.Array, Indices | None]:
    """The messages that are not tombstones, and their indices; None if all are. Views become plain arrays."""
    if pa.types.is_binary_view(values.type):
        values = values.cast(pa.binary() if values.nbytes <= JOIN_BYTES_MAX else pa.large_binary())
    if values.null_count == 0:
        return values, None
    index = np.flatnonzero(mask_of(values.is_valid()))
    return values.drop_null(), index.astype(np.int64, copy=False)


def join_lines(values: pa.Array) -> bytes | None:
    """All messages with a newline between each two; None if they exceed one Arrow array."""
    if not pa.types.is_binary(values.type):
        if values.nbytes > JOIN_BYTES_MAX:
            return None
        values = values.cast(pa.binary())
    size = len(values)
    if size == 0:
        return b""
    lists = pa.ListArray.from_arrays(number_array(np.array([0, size], np.int32)), values)
    joined = pc.binary_join(lists, _NEWLINE)
    _, _, data = joined.buffers()
    length: int = pc.binary_length(joined)[0].as_py()
    return bytes(data.slice(0, length).to_pybytes())


def message_bytes(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Indices]:
    """All bytes of messages without NULLs, and the n + 1 offsets of their begins and ends."""
    _, offsets, data = values.buffers()
    dtype = np.int32 if pa.types.is_binary(values.type) else np.int64
    places = np.frombuffer(offsets, dtype=dtype)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    found = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return found[places[0] : places[-1]], places - places[0]


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
