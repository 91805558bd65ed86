"""Rows in the order in which the ordered buffer releases them.

The order is (key group, upper 48 bits of the key's hash, key, event time, place, input). Two numbers are sorted for all
rows: the place of the key in files (`KeyOrder`), and the time. Keys that have one place, and rows of one key and time,
are sorted afterwards.

Pure: this module must not know buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.kernels.state.key_index import sorted_order
from headrace.state.row_groups import KeyOrder

INPUT = "__input"
"""Column of rows in the buffer: the number of the input that they came by."""
ROWS_RELEASED_MAX = 32_768
"""Rows of a released frame, unless more rows have one key and one time."""
ROWS_SORTED_MAX = 1 << 21
"""About the most rows of a release that are sorted together, unless more rows have one key."""

Times = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_SAMPLED_ROWS = 1 << 16
_RUN, _AT = "__run", "__at"
_SIGN = np.uint64(1 << 63)


def times_of(rows: pl.DataFrame) -> Times:
    """The event times of rows, which all have one: int64[n], epoch ms."""
    times = rows.get_column(TS)
    assert not times.null_count(), "rows in order have an event time"
    return times.to_numpy()


def words_of(times: Times) -> npt.NDArray[np.uint64]:
    """Times as unsigned numbers of the same order."""
    return times.view(np.uint64) ^ _SIGN


def by_key_range(parts: Sequence[pl.DataFrame], order: KeyOrder) -> Iterator[Sequence[pl.DataFrame]]:
    """All rows, about ROWS_SORTED_MAX at a time by ascending places of keys, and all rows of a key at a time."""
    rows = sum(part.height for part in parts)
    if rows <= ROWS_SORTED_MAX or not order.keys:
        if rows:
            yield parts
        return
    places = [order.places(part) for part in parts]
    sample = np.sort(np.concatenate(places)[:: max(1, rows // _SAMPLED_ROWS)])
    count = -(-rows // ROWS_SORTED_MAX)
    bounds = np.unique(sample[np.arange(1, count) * len(sample) // count])
    numbers = [np.searchsorted(bounds, words, "right") for words in places]
    for number in range(len(bounds) + 1):
        chosen = [part.filter(pl.Series(ranges == number)) for part, ranges in zip(parts, numbers, strict=True)]
        if any(part.height for part in chosen):
            yield [part for part in chosen if part.height]


def released(rows: pl.DataFrame, order: KeyOrder) -> Iterator[pl.DataFrame]:
    """The rows in order, in frames of at most ROWS_RELEASED_MAX, or of all rows of a key and time."""
    positions, begins = _sorted_rows(rows, order)
    begin = 0
    while begin < rows.height:
        index = int(np.searchsorted(begins, begin + ROWS_RELEASED_MAX, "right")) - 1
        if begins[index] == begin:
            index += 1
        end = int(begins[index])
        yield rows[pl.Series(positions[begin:end])]
        begin = end


def _sorted_rows(rows: pl.DataFrame, order: KeyOrder) -> tuple[npt.NDArray[np.uint32], Positions]:
    """The positions of the rows in order; where a key and time begin in that order, and the number of rows."""
    places = order.places(rows) if order.keys else np.zeros(rows.height, np.uint64)
    times = times_of(rows)
    positions = sorted_order(words_of(times))
    positions = positions[sorted_order(places[positions])]
    places = places[positions]
    alike = places[1:] == places[:-1]
    others = _other_keys(rows, order.keys, positions)
    if (alike & others).any():
        _sort_keys(rows, order.keys, positions, alike, others)
        others = _other_keys(rows, order.keys, positions)
    times = times[positions]
    alike &= ~others & (times[1:] == times[:-1])
    if alike.any():
        _sort_places(rows, positions, alike)
    return positions, np.concatenate([[0], np.flatnonzero(~alike) + 1, [rows.height]])


def _other_keys(rows: pl.DataFrame, keys: Sequence[str], positions: npt.NDArray[np.uint32]) -> Flags:
    """Whether each row but the first has another key than the one before it. One zero, one NaN; NULL equals NULL."""
    others: Flags = np.zeros(rows.height - 1, np.bool_)
    for key in keys:
        column = rows.get_column(key)[pl.Series(positions)]
        others |= column[1:].ne_missing(column[:-1]).to_numpy()
    return others


def _sort_keys(
    rows: pl.DataFrame, keys: Sequence[str], positions: npt.NDArray[np.uint32], alike: Flags, others: Flags
) -> None:
    """Sorts rows by key where keys that differ have the same place. Rows of a key keep their order."""
    runs = np.concatenate([[0], np.cumsum(~alike)])
    chosen = np.flatnonzero(np.isin(runs, runs[1:][alike & others]))
    by = rows.select(keys)[pl.Series(positions[chosen])].insert_column(0, pl.Series(_RUN, runs[chosen]))
    order = by.with_row_index(_AT).sort(by.columns, maintain_order=True).get_column(_AT).to_numpy()
    positions[chosen] = positions[chosen][order]


def _sort_places(rows: pl.DataFrame, positions: npt.NDArray[np.uint32], alike: Flags) -> None:
    """Sorts rows of one key and time by place and input. alike: rows that have those of the row before."""
    runs = np.concatenate([[0], np.cumsum(~alike)])
    chosen = np.flatnonzero(np.concatenate([alike, [False]]) | np.concatenate([[False], alike]))
    index = pl.Series(positions[chosen])
    by = [runs[chosen]]
    for name in (*ORDER_COLUMNS, INPUT):
        column = rows.get_column(name)[index]
        if column.dtype == pl.String:
            # most rows have one source and one topic
            if column.n_unique() == 1:
                continue
            column = column.rank("dense").fill_null(0)
        by.append(column.to_numpy())
    positions[chosen] = positions[chosen][np.lexsort(by[::-1])]
