"""Explode: one row for each element of a list. A NULL or empty list yields no row, as in SQL's unnest; a NULL element
yields one."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.batch import O_INDEX
from headrace.core.errors import DataError, UserError
from headrace.core.types import Field, ListOf, Schema
from headrace.operators.operator import Collector, Operator, OperatorConfig, Stateless

_ELEMENT_BITS = 21
"""Bits of `__o_index` per explode: up to three may follow one another, each list under 2,097,152 elements."""
_ELEMENT = "__element"


@dataclass(frozen=True, slots=True)
class ExplodeConfig(OperatorConfig):
    """`explode: <list column>`: the element replaces the list, under its name."""

    node: str
    column: str
    input: Schema

    def output(self) -> Schema:
        """The input's columns with the element's type. Raises UserError if the column is not a list."""
        field = self.input_field(self.column)
        if not isinstance(field.type, ListOf):
            lists = [item.name for item in self.input if isinstance(item.type, ListOf)]
            remedy = f"list columns: {', '.join(lists)}" if lists else "the input has no list column"
            raise UserError(f"column {self.column!r} is {field.type}, not a list", remedy=remedy)
        element = Field(field.name, field.type.inner, field.type.nullable)
        return Schema(tuple(element if item is field else item for item in self.input))

    def describe(self) -> str:
        """The list column."""
        return self.column

    def open(self) -> Operator:
        """A new operator of this step."""
        self.output()
        return _Explode(self.node, self.column)


class _Explode(Stateless):
    def __init__(self, node: str, column: str) -> None:
        self._node = node
        self._column = column

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        if O_INDEX in batch.columns:
            rows = self._numbered(batch)
        else:
            rows = batch.explode(self._column, empty_as_null=False, keep_nulls=False)
        if rows.height:
            out.emit(rows)

    def _numbered(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Explodes the list, and extends `__o_index`, a row's place among the rows made from one source row.

        The old place and the element number are packed into one integer. So a row's place does not depend on the other
        rows of its source row, which may be in other batches or subtasks.
        """
        length = pl.col(self._column).list.len()
        longest, place = batch.select(length.max(), pl.col(O_INDEX).max()).row(0)
        if (longest or 0) >> _ELEMENT_BITS or (place or 0) >> 2 * _ELEMENT_BITS:
            raise DataError(
                f"step {self._node!r}: a list of {longest} elements at place {place} of its source row is out of range",
                remedy=f"order-sensitive pipelines take lists under {1 << _ELEMENT_BITS} elements, nested three deep",
            )
        numbered = batch.with_columns(pl.int_ranges(length.cast(pl.Int64)).alias(_ELEMENT))
        rows = numbered.explode(self._column, _ELEMENT, empty_as_null=False, keep_nulls=False)
        old = pl.col(O_INDEX).fill_null(0)
        return rows.with_columns(old * (1 << _ELEMENT_BITS) + pl.col(_ELEMENT)).drop(_ELEMENT)
