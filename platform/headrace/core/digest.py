"""An order-free fingerprint of many rows: the sum modulo 2^128 of their hashes. Pure.

Equal multisets of rows have equal digests whatever their order and split, and digests of parts add up. It proves that
what stands in an output topic is what was written. A row is (key, value), each possibly NULL, as bytes.

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

_MODULUS = 1 << 128
_NULL = 42
"""Stands for the hash of a NULL."""
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)

Words = npt.NDArray[np.uint64]


def digest_of(values: pa.Array, keys: pa.Array | None = None) -> int:
    """The digest of n rows.

    values, keys: Arrow binary or string columns of length n; without keys every key is NULL. Gives 0 <= x < 2^128.
    """
    if not len(values):
        return 0
    value_low, value_high = _hashes(values)
    if keys is None or keys.null_count == len(keys):
        key_low = key_high = np.full(len(values), _NULL, np.uint64)
    else:
        key_low, key_high = _hashes(keys)
    # hashed once more together: sums of keys and of values alone would not say which key had which value
    low = xxh64_words((key_low, value_low), _SEEDS[0])
    high = xxh64_words((key_high, value_high), _SEEDS[1])
    return (_sum(low) + (_sum(high) << 64)) % _MODULUS


def add_digests(*digests: int) -> int:
    """The digest of all rows together."""
    return sum(digests) % _MODULUS


def digest_text(digest: int) -> str:
    """As 32 hex digits."""
    return f"{digest:032x}"


def digest_value(text: str) -> int:
    """The digest that a text says; 0 for the empty one."""
    return int(text, 16) if text else 0


def _hashes(column: pa.Array) -> tuple[Words, Words]:
    """Two hashes of each value."""
    series = pl.from_arrow(column)
    assert isinstance(series, pl.Series)
    column_of = polars_hash.col("bytes").nchash
    halves = [column_of.xxh3_64(seed=seed).fill_null(_NULL).alias(str(seed)) for seed in _SEEDS]
    hashed = series.cast(pl.Binary).alias("bytes").to_frame().select(*halves)
    low, high = (part.to_numpy() for part in hashed)
    return low, high


def _sum(words: Words) -> int:
    """The exact sum: halves are added apart, so that up to 2^32 rows do not overflow."""
    mask = np.uint64(0xFFFFFFFF)
    return int((words & mask).sum(dtype=np.uint64)) + (int((words >> np.uint64(32)).sum(dtype=np.uint64)) << 32)
