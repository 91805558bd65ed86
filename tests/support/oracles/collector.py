"""A collector that keeps what an operator makes, for tests that drive one operator by hand."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl

from headrace.core.batch import concat_batches
from headrace.operators.operator import MultiInputOperator, OperatorConfig


class Collected:
    """Main output, side outputs and counters of one operator."""

    def __init__(self) -> None:
        self.batches: list[pl.DataFrame] = []
        self.sides: defaultdict[str, list[pl.DataFrame]] = defaultdict(list)
        self.counters: Counter[str] = Counter()

    def emit(self, batch: pl.DataFrame) -> None:
        assert batch.height, "operators send no empty batches"
        self.batches.append(batch)

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        assert batch.height, "operators send no empty batches"
        self.sides[output].append(batch)

    def count(self, counter: str, rows: int) -> None:
        self.counters[counter] += rows

    @property
    def frame(self) -> pl.DataFrame:
        """All rows of the main output, in order."""
        return concat_batches(self.batches)

    @property
    def rows(self) -> list[dict[str, object]]:
        """The same as dicts; none where nothing was sent."""
        return self.frame.to_dicts() if self.batches else []

    def side(self, output: str) -> list[dict[str, object]]:
        """All rows of a side output."""
        return concat_batches(self.sides[output]).to_dicts() if self.sides[output] else []


def run_operator(config: OperatorConfig, *batches: pl.DataFrame) -> Collected:
    """What a fresh operator makes of the batches of its only input."""
    operator, out = config.open(), Collected()
    assert not isinstance(operator, MultiInputOperator)
    for batch in batches:
        operator.on_batch(batch, out)
    operator.close()
    return out
