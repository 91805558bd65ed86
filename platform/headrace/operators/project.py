"""Project: columns computed by expressions. They replace the input's columns (select) or are added to them
(with_columns)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from headrace.core.batch import hidden_columns
from headrace.core.errors import UserError
from headrace.core.types import Field, Schema
from headrace.expr.compiled import CompiledScalar
from headrace.expr.compiler import compile_scalar
from headrace.operators.aggregation.updates import keep_rows
from headrace.operators.operator import Collector, InputNeeds, OnError, Operator, OperatorConfig, Stateless
from headrace.operators.row_errors import RowErrors, failed_rows


@dataclass(frozen=True, slots=True)
class ProjectConfig(OperatorConfig):
    """`select: [col, ..]`, `select: {name: <expression>}` and `with_columns: {name: <expression>}`.

    columns      (name, expression) in the order written; expression None: the input's column of that name
    keep_input   True for with_columns: all input columns stay; an expression with the name of one replaces it in its
                 position, other names follow. All expressions read the input's columns
    update_key   key of the updating edge, or None; the plan has checked that the output contains the key columns
    has_time     rows have an event time, which expressions may read
    """

    node: str
    columns: tuple[tuple[str, str | None], ...]
    input: Schema
    keep_input: bool = False
    on_error: OnError = OnError.FAIL
    update_key: tuple[str, ...] | None = None
    has_time: bool = True

    def output(self) -> Schema:
        """The resulting columns. Raises UserError for an unknown or duplicate column, ExpressionError for other
        faults."""
        fields = {name: Field(name, scalar.type, scalar.nullable) for name, scalar in self._compiled().items()}
        fields |= {name: self.input_field(name) for name, text in self.columns if text is None}
        names = [name for name, _ in self.columns]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise UserError(f"column {doubled!r} is named twice")
        if self.keep_input:
            names = list(dict.fromkeys((*self.input.names, *names)))
        return Schema(tuple(fields[name] if name in fields else self.input.field(name) for name in names))

    def needs(self) -> InputNeeds:
        """Those of the expressions."""
        return InputNeeds.of(self._compiled().values())

    def describe(self) -> str:
        """The columns as written."""
        return ", ".join(name if text is None else f"{name} = {text}" for name, text in self.columns)

    def open(self) -> Operator:
        """A new operator of this step."""
        errors = RowErrors(self.node, self.on_error)
        return _Project(self.output().names, self._compiled(), errors, updating=self.update_key is not None)

    def _compiled(self) -> dict[str, CompiledScalar]:
        return {
            name: compile_scalar(text, self.input, has_time=self.has_time)
            for name, text in self.columns
            if text is not None
        }


class _Project(Stateless):
    def __init__(
        self, names: tuple[str, ...], scalars: dict[str, CompiledScalar], errors: RowErrors, *, updating: bool
    ) -> None:
        self._names = names
        self._values = [scalar.value.alias(name) for name, scalar in scalars.items()]
        self._checks = {f"__fails_{name}": scalar for name, scalar in scalars.items() if scalar.fails is not None}
        self._values += [
            scalar.fails.alias(check) for check, scalar in self._checks.items() if scalar.fails is not None
        ]
        self._errors = errors
        self._updating = updating

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        # with_columns, not select: an expression without columns must yield a value for every row
        wide = batch.with_columns(self._values) if self._values else batch
        result = wide[[*self._names, *hidden_columns(batch)]]
        if any(wide.get_column(check).any() for check in self._checks):
            result = self._without_bad(batch, wide, result, out)
        if result.height:
            out.emit(result)

    def _without_bad(
        self, batch: pl.DataFrame, wide: pl.DataFrame, result: pl.DataFrame, out: Collector
    ) -> pl.DataFrame:
        bad = failed_rows(batch, [(scalar, wide.get_column(check)) for check, scalar in self._checks.items()])
        if not bad:
            return result
        return keep_rows(result, self._errors.reject(batch, bad, out), updating=self._updating)
