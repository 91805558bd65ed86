"""Union: rows of several inputs with one schema, in order of arrival. The input edges put the columns into the same
order.

The union is the step that forgets the number of an input. So it extends the place of a row by that number: two rows
that are made from one source row, and come by different inputs, have different places.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.batch import O_INDEX
from headrace.core.errors import DataError
from headrace.core.types import Schema
from headrace.operators.operator import Collector, MultiInputOperator, OperatorConfig, Stateless

_PLACE_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class UnionConfig(OperatorConfig):
    """`union: [a, b]`."""

    node: str
    inputs: tuple[str, ...]
    input: Schema

    def input_schemas(self) -> tuple[Schema, ...]:
        """The same columns for every input."""
        return (self.input,) * len(self.inputs)

    def output(self) -> Schema:
        """The columns of the inputs, in the first one's order."""
        return self.input

    def describe(self) -> str:
        """The names of the inputs."""
        return ", ".join(self.inputs)

    def open(self) -> MultiInputOperator:
        """A new operator of this step."""
        return _Union(self.node, len(self.inputs))


class _Union(Stateless):
    def __init__(self, node: str, inputs: int) -> None:
        self._node = node
        self._inputs = inputs

    def on_input(self, number: int, batch: pl.DataFrame, out: Collector) -> None:
        out.emit(self._placed(number, batch) if O_INDEX in batch.columns else batch)

    def _placed(self, number: int, batch: pl.DataFrame) -> pl.DataFrame:
        """Extends `__o_index` by the number of the input. Rows of one input keep their order."""
        index = batch.get_column(O_INDEX)
        place = index.max()
        if isinstance(place, int) and place > (_PLACE_MAX - number) // self._inputs:
            raise DataError(
                f"step {self._node!r}: the place {place} of a row within its source row is out of range",
                remedy="explode lists after the union, or fewer lists before it",
            )
        return batch.with_columns(index * self._inputs + number)
