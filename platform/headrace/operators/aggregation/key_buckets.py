"""Keyed state in buckets by key hash, so that the state of some keys can be read without the rest. Pure.

A bucket (modulus, number) holds the keys whose hash modulo `modulus` is `number`; `modulus` is a power of two. A bucket
that has grown is written as two buckets of twice the modulus, so two buckets are either disjoint or nested. Without key
columns there is one bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.keygroups import Hashes
from headrace.kernels.group.key_hash import key_hash
from headrace.operators.aggregation.deltas import Place

BUCKET_ROWS_MAX = 4_096
"""Most rows of a bucket, over all states, before it is divided. A row of a key that is not in memory makes the operator
read the key's whole bucket, so this is about the most rows that one row makes it read."""
Indexes = npt.NDArray[np.int64]
Chosen = Sequence[Indexes]
"""For each part of the state, the indexes of the chosen rows."""
WHOLE: Place = (1, 0)
_MODULUS_MAX = 1 << 62


def touched_buckets(rows: pl.DataFrame, keys: Sequence[str], buckets: Collection[Place]) -> set[Place]:
    """The buckets that contain the keys of these rows."""
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
    """Divides rows into buckets: (bucket, its rows of each part); every row is in one of them.

    buckets   those of the earlier state. Rows in none of them go to new buckets, with the greatest modulus of `buckets`
    """
    if not any(part.height for part in parts):
        return
    if not keys:
        yield WHOLE, list(parts)
        return
    apart = {each for each in buckets if not _inside(each, buckets)}
    hashes = [key_hash(part, keys) if part.height else np.empty(0, dtype=np.uint64) for part in parts]
    finest = max((modulus for modulus, _ in apart), default=1)
    for modulus in sorted({modulus for modulus, _ in apart} | {finest}):
        for number, rows in _by_number(hashes, modulus):
            place = (modulus, number)
            if place in apart or (modulus == finest and not _inside(place, apart)):
                for bucket, chosen in _divided(hashes, place, rows):
                    yield bucket, [_gathered(part, own) for part, own in zip(parts, chosen, strict=True)]


def _inside(bucket: Place, others: Collection[Place]) -> bool:
    """Whether the bucket is nested in one of the others that has a smaller modulus."""
    modulus, number = bucket
    coarser = modulus >> 1
    while coarser:
        if (coarser, number & (coarser - 1)) in others:
            return True
        coarser >>= 1
    return False


def _by_number(hashes: Sequence[Hashes], modulus: int) -> Iterator[tuple[int, Chosen]]:
    """(number of the bucket, its rows of each part), for one modulus."""
    numbers = [each & np.uint64(modulus - 1) for each in hashes]
    orders = [np.argsort(each, kind="stable") for each in numbers]
    sorted_numbers = [each[order] for each, order in zip(numbers, orders, strict=True)]
    for number in np.unique(np.concatenate(sorted_numbers)):
        yield (
            int(number),
            [
                order[np.searchsorted(each, number, "left") : np.searchsorted(each, number, "right")]
                for each, order in zip(sorted_numbers, orders, strict=True)
            ],
        )


def _divided(hashes: Sequence[Hashes], bucket: Place, rows: Chosen) -> Iterator[tuple[Place, Chosen]]:
    """The bucket with its rows, or the smaller buckets that it is divided into to keep within the size bound."""
    count = sum(len(each) for each in rows)
    if not count:
        return
    modulus, number = bucket
    if count <= BUCKET_ROWS_MAX or modulus >= _MODULUS_MAX or _one_key(hashes, rows):
        yield bucket, rows
        return
    upper = [(each[own] & np.uint64(modulus)) != 0 for each, own in zip(hashes, rows, strict=True)]
    lower = [own[~up] for own, up in zip(rows, upper, strict=True)]
    yield from _divided(hashes, (modulus * 2, number), lower)
    yield from _divided(hashes, (modulus * 2, number + modulus), [own[up] for own, up in zip(rows, upper, strict=True)])


def _one_key(hashes: Sequence[Hashes], rows: Chosen) -> bool:
    """Whether all rows have the same hash, so that no modulus divides them (the distinct values of one key)."""
    found = np.concatenate([each[own] for each, own in zip(hashes, rows, strict=True)])
    return bool((found == found[0]).all())


def _gathered(part: pl.DataFrame, rows: Indexes) -> pl.DataFrame:
    return part[pl.Series(rows.astype(np.uint32))] if part.height else part
