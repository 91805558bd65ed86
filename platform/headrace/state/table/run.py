"""A run: immutable rows of a table, sorted by the hash of their key, so that rows are found by key.

A run is searched by the kernel (`kernels.state`). Without kernels, and for key types that the kernel does not know, a
run keeps the order of its rows and is searched by a join: the same rows, found more slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of a table. number: unique within the table; columns: what the kernel searches, if it can."""

    number: int
    frame: pl.DataFrame
    columns: kernel.RunColumns | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.frame.height


def sealed(number: int, frame: pl.DataFrame, keys: Sequence[str]) -> Run:
    """A run of these rows, in any order."""
    if not keys or not kernel.fits(frame.schema, keys):
        return Run(number, frame, None)
    hashes = key_hash(frame, keys)
    order = sorted_order(hashes)
    ordered = frame[pl.Series(order)]
    return Run(number, ordered, kernel.RunColumns(ordered, keys, hashes[order]))


def rows_of(runs: Sequence[Run], asked: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
    """All rows of the runs with the asked keys, as frames; frames may differ in columns. asked: distinct keys."""
    if not runs or (keys and not asked.height):
        return []
    found = [_joined(run.frame, asked, keys) for run in runs if run.columns is None]
    if len(found) < len(runs):
        found += _searched(runs, asked, keys)
    return [frame for frame in found if frame.height]


def _joined(frame: pl.DataFrame, asked: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    return frame.join(asked, on=list(keys), how="semi", nulls_equal=True) if keys else frame


def _searched(runs: Sequence[Run], asked: pl.DataFrame, keys: Sequence[str]) -> list[pl.DataFrame]:
    hashes = key_hash(asked, keys)
    found: list[pl.DataFrame] = []
    # runs with the same columns are searched and gathered at once
    for names, alike in _alike(runs).items():
        _, run, row = kernel.find_all(alike, hashes, asked)
        if run.size:
            found.append(kernel.gather(alike, run, row, names))
    return found


def _alike(runs: Sequence[Run]) -> dict[tuple[str, ...], list[kernel.RunColumns]]:
    alike: dict[tuple[str, ...], list[kernel.RunColumns]] = {}
    for run in runs:
        if run.columns is not None:
            alike.setdefault(tuple(run.frame.columns), []).append(run.columns)
    return alike
