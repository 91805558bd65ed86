"""Union: rows of several inputs of one schema, in order of arrival. The edges order the columns."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.types import Schema
from headrace.operators.operator import Collector, Operator, Stateless


@dataclass(frozen=True, slots=True)
class UnionConfig:
    """`union: [a, b]`."""

    node: str
    inputs: tuple[str, ...]
    input: Schema

    def output(self) -> Schema:
        """The columns of the inputs, in the first one's order."""
        return self.input

    def open(self) -> Operator:
        """A fresh live half."""
        return _Union()


class _Union(Stateless):
    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        out.emit(batch)
