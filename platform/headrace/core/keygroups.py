"""Key groups: assigns rows and keyed state to subtasks by the hash of their key.

This module defines the key hash, bit for bit. Checkpoints and savepoints store state by this hash, so it can never
change. The module must not know channels or state. XXH64 (seed 42) of each key column, chained over the columns:

    string, binary                  their bytes
    bool, ints, date, timestamp     int64 little-endian (date in days, timestamp in us)
    floats                          float64 bits; -0.0 as 0.0, every NaN as one
    decimal                         the scaled integer, 16 bytes little-endian
    NULL                            not hashed: its hash is 42
    further columns                 h = XXH64(8 bytes little-endian of the column's hash, seed h)

    key group = h mod max_parallelism        (`group_ranges`: its subtask)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash

from headrace.core.errors import UserError

Hashes = npt.NDArray[np.uint64]

SEED = 42
NULL_HASH = 42

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_CANONICAL_NAN = np.uint64(0x7FF8000000000000)


def key_hash(frame: pl.DataFrame, keys: Sequence[str]) -> Hashes:
    """The hash of each row's key: uint64[n]. Raises UserError for a column that cannot be a key (list, struct)."""
    assert keys, "a key has at least one column"
    folded = _column_hash(frame.get_column(keys[0]))
    for key in keys[1:]:
        folded = xxh64_words((_column_hash(frame.get_column(key)),), folded)
    return folded


def key_groups(frame: pl.DataFrame, keys: Sequence[str], max_parallelism: int) -> npt.NDArray[np.int32]:
    """The key group of each row: int32[n], 0 <= group < max_parallelism."""
    hashes = key_hash(frame, keys)
    if max_parallelism & (max_parallelism - 1) == 0:
        hashes &= np.uint64(max_parallelism - 1)  # same as mod, without a division
    else:
        hashes %= np.uint64(max_parallelism)
    return hashes.astype(np.int32)


def _column_hash(column: pl.Series) -> Hashes:
    dtype = column.dtype
    if dtype in (pl.String, pl.Binary):
        return _bytes_hash(column)
    hashes = xxh64_words(_words(column), SEED)
    if column.null_count():
        hashes[column.is_null().to_numpy()] = NULL_HASH
    return hashes


def _bytes_hash(column: pl.Series) -> Hashes:
    expression: pl.Expr = polars_hash.col(column.name).nchash.xxhash64(seed=SEED)
    hashed = column.to_frame().select(expression).to_series()
    if hashed.null_count():
        hashed = hashed.fill_null(NULL_HASH)
    return hashed.to_numpy(writable=True)


def _words(column: pl.Series) -> tuple[Hashes, ...]:
    """The bytes to hash, as little-endian 64-bit words; arbitrary where the column is NULL."""
    dtype = column.dtype
    if dtype.is_decimal():
        return _decimal_words(column)
    if dtype.is_float():
        values = column.fill_null(0.0).cast(pl.Float64).to_numpy(writable=True)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values += 0.0  # -0.0 + 0.0 is 0.0
        words = values.view(np.uint64)
        words[np.isnan(values)] = _CANONICAL_NAN
        return (words,)
    if dtype.is_integer() or dtype in (pl.Boolean, pl.Date, pl.Datetime("us", "UTC")):
        whole = column.to_physical().cast(pl.Int64)
        return (whole.fill_null(0).to_numpy().view(np.uint64),)
    raise UserError(
        f"column {column.name!r} of type {dtype} cannot be a key",
        remedy="use a string, binary, bool, int, float, decimal, date or timestamp column",
    )


def _decimal_words(column: pl.Series) -> tuple[Hashes, ...]:
    """Low and high half of the 128-bit scaled integers."""
    array = column.rechunk().to_arrow()  # decimal128 holds the scaled integers as polars does
    values = np.frombuffer(array.buffers()[1], dtype="<u8")[2 * array.offset : 2 * (array.offset + len(array))]
    halves: Hashes = values.reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def xxh64_words(words: Sequence[Hashes], seed: int | Hashes) -> Hashes:
    """XXH64 of inputs of 8 * len(words) bytes (less than 32), for all rows at once; `seed` may differ by row.

    A word that is the same in all rows may have length 1, unless a longer word precedes it.
    """
    state: Hashes = np.asarray(seed, dtype=np.uint64) + (_P5 + np.uint64(8 * len(words)))
    for word in words:
        lane = word * _P2
        lane = _rotated(lane, 31)
        lane *= _P1
        lane ^= state
        state = _rotated(lane, 27)
        state *= _P1
        state += _P4
    for shift, prime in ((33, _P2), (29, _P3)):
        state ^= state >> np.uint64(shift)
        state *= prime
    state ^= state >> np.uint64(32)
    return state


def _rotated(values: Hashes, bits: int) -> Hashes:
    """`values` rotated left by `bits`, in place."""
    right = values >> np.uint64(64 - bits)
    values <<= np.uint64(bits)
    values |= right
    return values
