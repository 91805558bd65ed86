"""Union: rows of several inputs with one schema, in order of arrival. The input edges put the columns into the same
order."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.types import Schema
from headrace.operators.operator import Collector, Operator, OperatorConfig, Stateless


@dataclass(frozen=True, slots=True)
class UnionConfig(OperatorConfig):
    """`union: [a, b]`."""

    node: str
    inputs: tuple[str, ...]
    input: Schema

    def output(self) -> Schema:
        """The columns of the inputs, in the first one's order."""
        return self.input

    def describe(self) -> str:
        """The names of the inputs."""
        return ", ".join(self.inputs)

    def open(self) -> Operator:
        """A new operator of this step."""
        return _Union()


class _Union(Stateless):
    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        out.emit(batch)
