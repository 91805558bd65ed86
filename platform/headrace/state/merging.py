"""Merges of sorted rows: rows whose key no other row has are gathered in order, only the others are combined.

A kernel finds the order and gathers (`kernels.state`). Without kernels, and where frames differ in columns or have key
types that the kernel does not know, rows are sorted and gathered by polars: the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.kernels.library import is_loaded
from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order
from headrace.state.row_groups import KeyOrder, Places, SortedRows

Reduce = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
"""Combines the rows of frames, the earlier ones first, which have all rows of their keys."""
Flags = npt.NDArray[np.bool_]


def merged_rows(slices: Sequence[SortedRows], order: KeyOrder, reduce: Reduce | None) -> SortedRows:
    """The rows of all slices, which are sorted, the earlier ones first. reduce: None keeps all rows."""
    if len(slices) == 1:
        only = slices[0]
        return _reduced(_Source([only.frame], order, None, only.places), reduce)
    frames = [each.frame for each in slices]
    if _is_mergeable(frames, order):
        columns = [kernel.RunColumns(each.frame, order.keys, each.places) for each in slices]
        run, row = kernel.merge_order(columns, unique=False)
        begins = np.cumsum([0, *(frame.height for frame in frames[:-1])])
        places = np.concatenate([each.places for each in slices])[begins[run] + row]
        return _reduced(_Source(frames, order, (run, row), places, columns), reduce)
    whole = pl.concat(frames, how="diagonal", rechunk=True)
    return _sorted(whole, np.concatenate([each.places for each in slices]), order, reduce, frames)


def sorted_rows(frames: Sequence[pl.DataFrame], order: KeyOrder, reduce: Reduce | None) -> SortedRows:
    """The rows of frames, which are in no order, the earlier ones first. reduce: None keeps all rows."""
    whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal", rechunk=True)
    places = order.places(whole)
    if reduce is not None and len(frames) > 1:
        first, last = places[: frames[0].height], places[-frames[-1].height :]
        if _are_few(~np.isin(last, first)):
            # frames have the same keys: no row is alone
            return order.sort(reduce(frames))
    return _sorted(whole, places, order, reduce, frames)


def _sorted(
    whole: pl.DataFrame, places: Places, order: KeyOrder, reduce: Reduce | None, frames: Sequence[pl.DataFrame]
) -> SortedRows:
    if (places[1:] >= places[:-1]).all():
        return _reduced(_Source([whole], order, None, places), reduce)
    row = sorted_order(places)
    places = places[row]
    if reduce is not None and _are_few(_alone(places)):
        return order.sort(reduce(frames))
    at = np.zeros(len(row), np.int32), row
    columns = [kernel.RunColumns(whole, (), None)] if is_loaded() else None
    return _reduced(_Source([whole], order, at, places, columns), reduce)


def _is_mergeable(frames: Sequence[pl.DataFrame], order: KeyOrder) -> bool:
    first = frames[0]
    return (
        len(frames) <= kernel.MERGED_RUNS_MAX
        and kernel.fits(first.schema, order.keys)
        and all(frame.schema == first.schema for frame in frames)
    )


class _Source:
    """Rows of frames in order. at: the frame and the row of each; None: those of the only frame, as they are."""

    def __init__(
        self,
        frames: Sequence[pl.DataFrame],
        order: KeyOrder,
        at: tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]] | None,
        places: Places,
        columns: list[kernel.RunColumns] | None = None,
    ) -> None:
        self.frames = frames
        self.order = order
        self.places = places
        self._at = at
        self._columns = columns

    def rows(self, chosen: Flags | None = None) -> pl.DataFrame:
        """The rows; those that are chosen."""
        if self._at is None:
            return self.frames[0] if chosen is None else self.frames[0].filter(pl.Series(chosen))
        run, row = self._at if chosen is None else (self._at[0][chosen], self._at[1][chosen])
        if self._columns is None:
            return self.frames[0][pl.Series(row)]
        return kernel.gather(self._columns, run, row, self.frames[0].columns)

    def inserted(self, chosen: Flags, others: pl.DataFrame, at: npt.NDArray[np.int64]) -> pl.DataFrame:
        """The rows that are chosen, with others before the chosen rows `at`."""
        if self._at is None or self._columns is None or others.schema != self.frames[0].schema:
            rows = self.rows(chosen)
            index = np.insert(np.arange(rows.height), at, np.arange(len(at)) + rows.height)
            return pl.concat([rows, others], how="diagonal", rechunk=True)[pl.Series(index)]
        columns = [*self._columns, kernel.RunColumns(others, (), None)]
        run = np.insert(self._at[0][chosen], at, np.int32(len(self._columns)))
        row = np.insert(self._at[1][chosen], at, np.arange(len(at), dtype=np.uint32))
        return kernel.gather(columns, run, row, self.frames[0].columns)


def _reduced(source: _Source, reduce: Reduce | None) -> SortedRows:
    order, places = source.order, source.places
    if reduce is None or (alone := _alone(places)).all():
        return SortedRows(order, source.rows(), places)
    if _are_few(alone):
        return order.sort(reduce(source.frames))
    combined = order.sort(reduce([source.rows(~alone)]))
    # no place is in both
    at = np.searchsorted(places[alone], combined.places)
    return SortedRows(order, source.inserted(alone, combined.frame, at), np.insert(places[alone], at, combined.places))


def _alone(places: Places) -> Flags:
    """Whether no other row has the place of a row."""
    is_new = np.ones(len(places) + 1, np.bool_)
    np.not_equal(places[1:], places[:-1], out=is_new[1:-1])
    flags: Flags = is_new[1:] & is_new[:-1]
    return flags


def _are_few(alone: Flags) -> bool:
    """Whether so few rows are alone that all are combined."""
    return 2 * int(np.count_nonzero(alone)) < len(alone)
