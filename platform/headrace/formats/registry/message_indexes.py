"""Protobuf's part of a frame: the path of a message in its schema, by indexes. Pure.

Behind the schema id stand zigzag varints: how many indexes, then the index of the message at the top level of the file,
of the message nested in that one, and so on. `[0]`, the first message, is written as one byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.formats.registry.byte_spans import ByteSpans, Positions

INDEXES_MAX = 32
"""Most levels of nested messages: the limit of Protobuf's compiler."""
_VARINT_BYTES_MAX = 5
_FIRST = (0,)

MessagePath = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MessageIndexes:
    """The indexes of n messages.

    codes  which of `paths` each has; -1: its bytes are no indexes
    paths  the different ones
    ends   position behind the indexes of each
    """

    codes: Positions
    paths: tuple[MessagePath, ...]
    ends: Positions


def read_indexes(spans: ByteSpans) -> MessageIndexes:
    """Reads the indexes at the beginning of each span."""
    counts, at, is_whole = _varints(spans, np.ones(len(spans.begins), np.bool_))
    is_good = is_whole & (counts >= 0) & (counts <= INDEXES_MAX)
    levels = int(counts[is_good].max(initial=0))
    paths = np.full((len(counts), max(levels, 1)), -1, np.int64)
    paths[is_good & (counts == 0), 0] = 0
    for level in range(levels):
        is_read = is_good & (counts > level)
        index, at, is_whole = _varints(ByteSpans(spans.data, at, spans.ends), is_read)
        is_good &= ~is_read | (is_whole & (index >= 0))
        paths[is_read, level] = index[is_read]
    codes = np.full(len(counts), -1, np.int64)
    good = np.flatnonzero(is_good)
    different, codes[good] = _distinct(paths[good])
    return MessageIndexes(codes, different, at)


def index_bytes(path: Sequence[int]) -> bytes:
    """The indexes of one message as they stand in a frame."""
    if tuple(path) == _FIRST:
        return b"\0"
    return b"".join(_varint(number) for number in (len(path), *path))


def _distinct(paths: npt.NDArray[np.int64]) -> tuple[tuple[MessagePath, ...], Positions]:
    if not len(paths):
        return (), np.empty(0, np.int64)
    if (paths == paths[0]).all():
        return (_path(paths[0]),), np.zeros(len(paths), np.int64)
    rows, codes = np.unique(paths, axis=0, return_inverse=True)
    return tuple(_path(row) for row in rows), codes.reshape(-1)


def _path(row: npt.NDArray[np.int64]) -> MessagePath:
    return tuple(int(index) for index in row if index >= 0)


def _varints(
    spans: ByteSpans, is_read: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], Positions, npt.NDArray[np.bool_]]:
    """A zigzag varint at the beginning of each span that is read: numbers, positions behind them, whether it was whole.

    Numbers of others have no meaning.
    """
    values = np.zeros(len(spans.begins), np.int64)
    at = spans.begins.copy()
    is_whole = np.zeros(len(values), np.bool_)
    active = np.flatnonzero(is_read)
    for number in range(_VARINT_BYTES_MAX):
        active = active[at[active] < spans.ends[active]]
        if not len(active):
            break
        byte = spans.data[at[active]].astype(np.int64)
        values[active] |= (byte & 0x7F) << (7 * number)
        at[active] += 1
        is_last = byte < 0x80
        is_whole[active[is_last]] = True
        active = active[~is_last]
    return (values >> 1) ^ -(values & 1), at, is_whole


def _varint(number: int) -> bytes:
    assert number >= 0, "counts and indexes"
    rest, written = number << 1, bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)
