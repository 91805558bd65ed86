"""Rows of a batch that one subtask receives: chosen, and gathered only where they are needed as a frame.

A sender to another process never needs them as a frame: its encoder gathers the chosen rows straight into the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows `order` (uint32[n], each at most once) of a batch; all of its rows if `order` is None.

    bytes  what the rows take, estimated from what the whole batch takes
    """

    batch: pl.DataFrame
    order: npt.NDArray[np.uint32] | None
    bytes: int

    @classmethod
    def all_of(cls, batch: pl.DataFrame) -> Rows:
        """Every row of a batch."""
        return cls(batch, None, int(batch.estimated_size()))

    @property
    def height(self) -> int:
        """How many rows."""
        return self.batch.height if self.order is None else len(self.order)

    def slice(self, begin: int, length: int) -> Rows:
        """`length` rows from `begin` on, or fewer at the end."""
        length = min(length, self.height - begin)
        size = self.bytes * length // max(self.height, 1)
        if self.order is None:
            return Rows(self.batch.slice(begin, length), None, size)
        return Rows(self.batch, self.order[begin : begin + length], size)

    def gathered(self) -> pl.DataFrame:
        """The rows as a frame, in their order."""
        return self.batch if self.order is None else self.batch[pl.Series(self.order)]


Split = Sequence[tuple[int, Rows]]
"""(target, its rows in order) for every target that receives rows of a batch."""


def frames_of(split: Split) -> list[tuple[int, pl.DataFrame]]:
    """Every part as a frame. One gather serves all parts of a batch: each is a slice of the result without a copy."""
    orders = [rows.order for _, rows in split if rows.order is not None]
    if len(orders) < len(split):
        return [(target, rows.gathered()) for target, rows in split]
    if not orders:
        return []
    gathered = split[0][1].batch[pl.Series(np.concatenate(orders))]
    ends = np.cumsum([len(order) for order in orders]).tolist()
    return [
        (target, gathered.slice(end - rows.height, rows.height))
        for (target, rows), end in zip(split, ends, strict=True)
    ]
