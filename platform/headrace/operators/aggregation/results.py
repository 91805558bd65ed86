"""Result rows of an aggregating step: keys, window bounds, and the values of the aggregate expressions.

Owns the schema of output rows and the policy for groups whose result fails (overflow, a failed cast).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, TS
from headrace.core.types import DataType, Decimal, Field, Primitive, Schema, Timestamp, polars_type
from headrace.expr.compiled import CompiledAggregate
from headrace.operators.aggregates.layout import Layout
from headrace.operators.operator import Collector
from headrace.operators.row_errors import RowErrors


@dataclass(frozen=True, slots=True)
class StepShape:
    """The columns of a step's rows."""

    node: str
    input: Schema
    keys: tuple[Field, ...]
    aggregates: tuple[CompiledAggregate, ...]
    order_output: bool


class Results:
    """Turns merged groups into output rows."""

    def __init__(
        self, shape: StepShape, layout: Layout, errors: RowErrors, around: Sequence[pl.Expr], major: pl.Expr
    ) -> None:
        """`around`: visible columns between keys and aggregates (window bounds); `major`: the value of the order column
        `__o_major` of output rows."""
        self._shape = shape
        self._layout = layout
        self._errors = errors
        keys = [pl.col(item.name) for item in shape.keys]
        made = [item.finish.cast(polars_type(item.type)).alias(item.name) for item in shape.aggregates]
        self._order = [
            pl.lit(shape.node).alias(O_NODE),
            key_text(shape.keys).alias(O_TEXT),
            major.cast(pl.Int64).alias(O_MAJOR),
            pl.lit(0, dtype=pl.Int64).alias(O_MINOR),
            pl.lit(0, dtype=pl.Int64).alias(O_INDEX),
        ]
        self._columns = [*keys, *around, *made, pl.col(TS), *(self._order if shape.order_output else [])]
        self.input_ordered = False

    def emit(self, merged: pl.DataFrame, out: Collector) -> None:
        """Emits a row per group of `merged`, which has keys, TS, state columns and the columns that `around` reads."""
        if not merged.height:
            return
        finished = [state.finish(merged) for state in self._layout.calls]
        groups = merged.with_columns([item.value for item in finished])
        overflows = {item.value.name: item.overflow for item in finished if item.overflow is not None}
        groups = self._passing(groups, overflows, out)
        if groups.height:
            out.emit(groups.select(self._columns))

    def _passing(self, groups: pl.DataFrame, overflows: dict[str, pl.Series], out: Collector) -> pl.DataFrame:
        """The groups whose results do not fail. The step's `on_error` policy is applied to the others, as bad rows."""
        bad: dict[int, str] = {}
        for item in self._shape.aggregates:
            for call in item.calls:
                if (overflow := overflows.get(call.slot)) is not None:
                    reason = f"{item.name}: the {call.function} does not fit into {call.type}"
                    bad = dict.fromkeys(overflow.arg_true().to_list(), reason) | bad
            if item.fails is not None:
                failed = groups.with_columns(item.fails.fill_null(value=False).alias("__fails")).get_column("__fails")
                bad = dict.fromkeys(failed.arg_true().to_list(), f"{item.name}: {item.text}: no result") | bad
        if not bad:
            return groups
        return groups.filter(self._errors.reject(self._as_input(groups), bad, out))

    def _as_input(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Groups as rows with the columns of the step's input, which all its bad rows have: the keys' values, and NULL
        in other columns."""
        names = {item.name for item in self._shape.keys}
        columns = [
            pl.col(item.name) if item.name in names else pl.lit(None, dtype=polars_type(item.type)).alias(item.name)
            for item in self._shape.input
        ]
        return groups.select(*columns, pl.col(TS), *(self._order if self.input_ordered else []))


def key_text(keys: Sequence[Field]) -> pl.Expr:
    """The key as JSON, distinct for distinct keys: `{"origin":"JFK"}`."""
    if not keys:
        return pl.lit("{}")
    return pl.struct([_plain(item.name, item.type) for item in keys]).struct.json_encode()


def _plain(name: str, dtype: DataType) -> pl.Expr:
    match dtype:
        case Primitive.BINARY:
            return pl.col(name).bin.encode("base64").alias(name)
        case Primitive.FLOAT32 | Primitive.FLOAT64 | Primitive.DATE | Decimal():
            return pl.col(name).cast(pl.String)
        case Timestamp():
            return pl.col(name).cast(pl.Int64)
        case _:
            return pl.col(name)
