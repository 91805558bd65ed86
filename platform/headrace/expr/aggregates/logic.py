"""bool_and and bool_or."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import ExpressionError
from headrace.core.types import DataType, Primitive
from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family


def _bool(name: str, types: Sequence[DataType]) -> DataType:
    if types[0] != Primitive.BOOL:
        raise ExpressionError(f"{name} needs a bool, not {types[0]}", remedy=f"compare: {name}(x > 0)")
    return Primitive.BOOL


FAMILY = Family(
    functions=(AggregateFunction("bool_and", _bool), AggregateFunction("bool_or", _bool)),
    forms=(
        AggregateForm(
            ("bool_and(x)", "bool_or(x)"),
            "`bool`: whether x is true in every row, in some row; NULL of none",
            {"bool_and": ("bool_and(x > 1)", "false"), "bool_or": ("bool_or(x > 1)", "true")},
        ),
    ),
)
