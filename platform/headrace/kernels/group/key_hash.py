"""Hashes keys, and orders rows by the subtask that owns their key group: `c/group/key_hash.c`.

The hashes are bit for bit those of `core.keygroups`, which defines them and hashes the columns that the kernel does not
support.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64, c_uint64, c_void_p

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core import keygroups
from headrace.core.keygroups import Hashes
from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.library import is_loaded, kernel

_HASH_ARGUMENTS = (c_void_p, c_void_p, c_int64, c_void_p, c_int64)
_ORDER_ARGUMENTS = (c_void_p, c_int64, c_uint64, c_uint64, c_void_p, c_void_p, c_void_p)


def key_hash(frame: pl.DataFrame, keys: Sequence[str]) -> Hashes:
    """The hash of each row's key: uint64[n]. Raises UserError for a column that cannot be a key (list, struct)."""
    assert keys, "a key has at least one column"
    if not is_loaded():
        return keygroups.key_hash(frame, keys)
    columns, hashes = frame.columns, np.empty(frame.height, np.uint64)
    places = (c_int64 * len(keys))(*map(columns.index, keys))
    # all columns: polars takes far longer to select some than to export them
    capsule = frame.__arrow_c_stream__()
    hashing = kernel("headrace_key_hash", c_int64, *_HASH_ARGUMENTS)
    read = hashing(stream_address(capsule), places, len(keys), hashes.ctypes.data, len(hashes))
    if read < 0:
        return keygroups.key_hash(frame, keys)
    assert read == frame.height, f"{read} of {frame.height} keys {keys} of {frame.schema} were hashed"
    return hashes


def split_order(
    frame: pl.DataFrame, keys: Sequence[str], parallelism: int, max_parallelism: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]] | None:
    """The rows ordered by the subtask that owns their key group, stable within a subtask; the row count per subtask.

    Returns uint32[n] and int64[parallelism]; None where kernels are off or missing.
    """
    if not is_loaded():
        return None
    hashes = key_hash(frame, keys)
    order, targets = np.empty(len(hashes), np.uint32), np.empty(len(hashes), np.uint16)
    counts = np.zeros(parallelism, np.int64)
    places = (targets.ctypes.data, order.ctypes.data, counts.ctypes.data)
    ordering = kernel("headrace_split_order", None, *_ORDER_ARGUMENTS)
    ordering(hashes.ctypes.data, len(hashes), max_parallelism, parallelism, *places)
    return order, counts
