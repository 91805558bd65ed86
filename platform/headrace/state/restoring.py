"""Gives a table its rows back, frame by frame as they are read."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from headrace.state.runs import Part
from headrace.state.snapshot import RestoredFrame
from headrace.state.table import Table

ROWS_KEPT_MIN = 8_192
"""Rows of a restored frame that stays alone, so that checkpoints name its file again."""
GATHERED_ROWS_MAX = 32_768
"""Rows of smaller restored frames that become a part."""


def restore(table: Table, frames: Iterable[RestoredFrame]) -> None:
    """Gives the table the rows of all frames."""
    restoring = Restoring(table)
    for each in frames:
        restoring.add(each)
    restoring.end()


class Restoring:
    """Rows that a table gets back. Small frames are gathered: state files have many of them, which are written
    again."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._parts: list[Part] = []
        self._small: list[pl.DataFrame] = []
        self._small_rows = 0

    def add(self, restored: RestoredFrame) -> None:
        """Adds the rows of a frame, in a local file if the slot has no room for them."""
        rows = restored.frame.height
        if rows >= ROWS_KEPT_MIN or (rows and not self._table.is_gathered):
            self._parts.append(self._table.restored(restored))
        elif rows:
            self._small.append(restored.frame)
            self._small_rows += rows
        if self._small_rows >= GATHERED_ROWS_MAX:
            self._gather()

    def end(self) -> None:
        """Ends the restore: the table has the rows from now on."""
        if self._small:
            self._gather()
        self._table.add_restored(self._parts)

    def _gather(self) -> None:
        gathered = RestoredFrame(pl.concat(self._small, how="diagonal", rechunk=True))
        self._small, self._small_rows = [], 0
        self._parts.append(self._table.restored(gathered))
