"""Filter: the rows for which a predicate is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from headrace.core.types import Schema
from headrace.expr.compiled import CompiledScalar
from headrace.expr.compiler import compile_predicate
from headrace.operators.aggregation.updates import keep_rows
from headrace.operators.operator import Collector, InputNeeds, OnError, Operator, OperatorConfig, Stateless
from headrace.operators.row_errors import RowErrors, failed_rows

_PASS = "__pass"
_FAILS = "__fails"


@dataclass(frozen=True, slots=True)
class FilterConfig(OperatorConfig):
    """`filter: <predicate>`. A row for which the predicate is NULL does not pass.

    update_key   key of the updating edge, or None. On an updating edge a row that does not pass becomes a delete
    has_time     rows have an event time, which the predicate may read
    """

    selects_rows: ClassVar[bool] = True

    node: str
    predicate: str
    input: Schema
    on_error: OnError = OnError.FAIL
    update_key: tuple[str, ...] | None = None
    has_time: bool = True

    def output(self) -> Schema:
        """The input's columns. Raises ExpressionError for a wrong predicate."""
        self._compiled()
        return self.input

    def needs(self) -> InputNeeds:
        """Those of the predicate. Raises ExpressionError for a wrong predicate."""
        return InputNeeds.of([self._compiled()])

    def describe(self) -> str:
        """The predicate."""
        return self.predicate

    def open(self) -> Operator:
        """A new operator of this step."""
        updating = self.update_key is not None
        return _Filter(self._compiled(), RowErrors(self.node, self.on_error), updating=updating)

    def _compiled(self) -> CompiledScalar:
        return compile_predicate(self.predicate, self.input, has_time=self.has_time)


class _Filter(Stateless):
    def __init__(self, predicate: CompiledScalar, errors: RowErrors, *, updating: bool) -> None:
        self._predicate = predicate
        self._errors = errors
        self._updating = updating

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        if self._predicate.fails is None and not self._updating:
            passed = batch.filter(self._predicate.value)
        else:
            passed = self._careful(batch, out)
        if passed.height:
            out.emit(passed)

    def _careful(self, batch: pl.DataFrame, out: Collector) -> pl.DataFrame:
        """The path for predicates that can fail and for updating edges."""
        fails = self._predicate.fails
        # with_columns, not select: a predicate without columns must yield a value for every row
        answers = batch.with_columns(
            self._predicate.value.alias(_PASS), *([] if fails is None else [fails.alias(_FAILS)])
        )
        keep = answers.get_column(_PASS)
        if fails is not None and answers.get_column(_FAILS).any():
            bad = failed_rows(batch, [(self._predicate, answers.get_column(_FAILS))])
            if bad:
                keep &= self._errors.reject(batch, bad, out)
        return keep_rows(batch, keep, updating=self._updating)
