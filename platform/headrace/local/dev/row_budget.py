"""How many rows of a sink are shown: at most a number in a second; the others are counted. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_SECOND_S = 1.0


@dataclass(slots=True)
class RowBudget:
    """The budget of one sink. `left_out`: rows since the last `settle` that were not shown."""

    rows_per_s: int
    left_out: int = 0
    _since_s: float = 0.0
    _shown: int = 0

    def take(self, rows: int, now_s: float) -> int:
        """Returns how many of these rows are shown, the first ones of them."""
        if now_s - self._since_s >= _SECOND_S:
            self._since_s, self._shown = now_s, 0
        shown = min(rows, self.rows_per_s - self._shown)
        self._shown += shown
        self.left_out += rows - shown
        return shown

    def settle(self, now_s: float) -> int:
        """Returns the number of rows that were left out, once a second is over; 0 before, or if there are none."""
        if not self.left_out or now_s - self._since_s < _SECOND_S:
            return 0
        count, self.left_out = self.left_out, 0
        return count
