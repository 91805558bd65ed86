"""Rows of keyed state in buckets of their key's hash: the state of some keys can be read without the rest. Pure.

A bucket (modulus, number) holds keys whose hash is `number` modulo `modulus`, a power of two. One that has grown is
written as two of twice the modulus, so buckets lie apart or within each other. Without key columns there is one bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.keygroups import Hashes, key_hash
from headrace.operators.deltas import Place

BUCKET_ROWS_MAX = 16_384
"""Rows of a bucket, over all states, before it is divided: what one key's row costs to read at most, about."""
WHOLE: Place = (1, 0)
_MODULUS_MAX = 1 << 62


def touched_buckets(rows: pl.DataFrame, keys: Sequence[str], buckets: Collection[Place]) -> set[Place]:
    """Those of the buckets that the keys of some rows are in."""
    if not keys:
        return set(buckets)
    hashes = key_hash(rows, keys)
    found: set[Place] = set()
    for modulus in {modulus for modulus, _ in buckets}:
        found |= {(modulus, int(number)) for number in np.unique(hashes & np.uint64(modulus - 1))}
    return found & set(buckets)


def cut_by_bucket(
    parts: Sequence[pl.DataFrame], keys: Sequence[str], buckets: Collection[Place]
) -> Iterator[tuple[Place, list[pl.DataFrame]]]:
    """Each row once: (bucket, its rows of each part). buckets: those that there were; rows of none of them get buckets
    as fine as the finest."""
    if not any(part.height for part in parts):
        return
    if not keys:
        yield WHOLE, list(parts)
        return
    apart = {each for each in buckets if not _inside(each, buckets)}
    hashes = [key_hash(part, keys) if part.height else np.empty(0, dtype=np.uint64) for part in parts]
    finest = max((modulus for modulus, _ in apart), default=1)
    for modulus in sorted({modulus for modulus, _ in apart} | {finest}):
        for number in np.unique(np.concatenate([each & np.uint64(modulus - 1) for each in hashes])).tolist():
            place = (modulus, int(number))
            if place in apart or (modulus == finest and not _inside(place, apart)):
                yield from _divided(parts, hashes, modulus, int(number))


def _inside(bucket: Place, others: Collection[Place]) -> bool:
    """Whether it lies in a coarser one of the others."""
    modulus, number = bucket
    return any(each < modulus and number % each == other for each, other in others)


def _divided(
    parts: Sequence[pl.DataFrame], hashes: Sequence[Hashes], modulus: int, number: int
) -> Iterator[tuple[Place, list[pl.DataFrame]]]:
    chosen = [np.flatnonzero((each & np.uint64(modulus - 1)) == number).astype(np.uint32) for each in hashes]
    rows = sum(len(each) for each in chosen)
    if not rows:
        return
    if rows > BUCKET_ROWS_MAX and modulus < _MODULUS_MAX and not _one_key(hashes, chosen):
        for half in (number, number + modulus):
            yield from _divided(parts, hashes, modulus * 2, half)
        return
    yield (
        (modulus, number),
        [part[pl.Series(own)] if part.height else part for part, own in zip(parts, chosen, strict=True)],
    )


def _one_key(hashes: Sequence[Hashes], chosen: Sequence[npt.NDArray[np.uint32]]) -> bool:
    """Whether all chosen rows have one hash: no modulus divides them (the distinct values of one key)."""
    found = np.unique(np.concatenate([each[own] for each, own in zip(hashes, chosen, strict=True)]))
    return len(found) == 1
