"""What the first rows of a source subtask look like: columns that are always NULL, event times in 1970, remarks of the
reader.

Counts by column, and stops after `FIRST_ROWS_MAX` rows. Rows are not changed. `coordinator.figures.data_warnings`
judges what was counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.rpc.figures import FIRST_ROWS_MAX, REMARKS_MAX, FirstRows

END_OF_1970_MS = 365 * 24 * 60 * 60 * 1_000
"""1971-01-01T00:00:00Z in epoch ms."""

Times = npt.NDArray[np.int64]


class FirstRowsCount:
    """The counts of one source subtask. One thread adds, any thread may read `figures`."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._all_null = tuple(columns)
        self._rows = 0
        self._in_1970 = 0
        self._greatest: int | None = None
        self.figures = FirstRows(rows=0)
        """The counts so far."""

    def add(self, rows: pl.DataFrame, times: Times | None) -> None:
        """Adds good rows, and their event times (epoch ms; None: the source has no time)."""
        if self._rows >= FIRST_ROWS_MAX or not rows.height:
            return
        self._rows += rows.height
        self._all_null = tuple(name for name in self._all_null if rows.get_column(name).null_count() == rows.height)
        if times is not None and int(times.min()) < END_OF_1970_MS:
            self._add_times(times)
        self.figures = FirstRows(
            rows=self._rows,
            all_null=self._all_null,
            in_1970=self._in_1970,
            greatest_1970=self._greatest,
            remarks=self.figures.remarks,
        )

    def remark(self, remarks: Sequence[str]) -> None:
        """Adds remarks of the reader, each once."""
        kept = tuple(dict.fromkeys((*self.figures.remarks, *remarks)))[:REMARKS_MAX]
        if kept != self.figures.remarks:
            self.figures = self.figures.model_copy(update={"remarks": kept})

    def _add_times(self, times: Times) -> None:
        early = times[(times >= 0) & (times < END_OF_1970_MS)]
        if early.size:
            self._in_1970 += int(early.size)
            self._greatest = max(int(early.max()), -1 if self._greatest is None else self._greatest)
