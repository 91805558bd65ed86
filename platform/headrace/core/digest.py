"""An order-free fingerprint of many rows: the sum modulo 2^128 of their hashes. Pure.

Equal multisets of rows have equal digests whatever their order and split, and digests of parts add up. Equal digests
show that an output topic holds exactly the rows that were written. A row is (key, value), each as bytes, each possibly
NULL.

Source: multiset hashing by addition (MSet-Add-Hash; Clarke et al., Asiacrypt 2003). XXH3 is no cryptographic hash: it
guards against mistakes, not against an adversary.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
import polars_hash
import pyarrow as pa

from headrace.core.keygroups import xxh64_words
from headrace.core.text.digest_text import MODULUS

_NULL = 42
"""The hash of a NULL."""
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_TOGETHER_ROWS = 8_192
"""Rows hashed at a time, so few that their intermediate arrays stay in the processor's cache."""

_HASHED = tuple(polars_hash.col("bytes").nchash.xxh3_64(seed=seed).alias(str(seed)) for seed in _SEEDS)
_FILLED = tuple(hashed.fill_null(_NULL) for hashed in _HASHED)

Words = npt.NDArray[np.uint64]


def digest_of(values: pa.Array, keys: pa.Array | None = None) -> int:
    """The digest of n rows.

    values, keys: Arrow binary or string columns of length n; without keys every key is NULL. Returns 0 <= x < 2^128.
    """
    if not len(values):
        return 0
    value_words = _hashes(values)
    # a key that all rows share is one word, which numpy broadcasts
    no_key = np.array([_NULL], np.uint64)
    key_words = (no_key, no_key) if keys is None or keys.null_count == len(keys) else _hashes(keys)
    low, high = (_sum_of_both(*each) for each in zip(key_words, value_words, _SEEDS, strict=True))
    return (low + (high << 64)) % MODULUS


def _hashes(column: pa.Array) -> tuple[Words, Words]:
    """Two hashes of each value."""
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    hashed = series.cast(pl.Binary).alias("bytes").to_frame().select(_FILLED if column.null_count else _HASHED)
    low, high = (part.to_numpy() for part in hashed)
    return low, high


def _sum_of_both(keys: Words, values: Words, seed: int) -> int:
    """The sum over rows of the hash of (key hash, value hash). Separate sums of keys and of values would not show which
    key belongs to which value."""
    total = 0
    for begin in range(0, len(values), _TOGETHER_ROWS):
        rows = slice(begin, begin + _TOGETHER_ROWS)
        total += _sum(xxh64_words((keys if len(keys) == 1 else keys[rows], values[rows]), seed))
    return total


def _sum(words: Words) -> int:
    """The exact sum. The 32-bit halves are summed separately, so that up to 2^32 rows do not overflow."""
    mask = np.uint64(0xFFFFFFFF)
    return int((words & mask).sum(dtype=np.uint64)) + (int((words >> np.uint64(32)).sum(dtype=np.uint64)) << 32)
