"""min and max."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import DataType
from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, require_order


def _ordered(name: str, types: Sequence[DataType]) -> DataType:
    require_order(name, types[0])
    return types[0]


FAMILY = Family(
    functions=(AggregateFunction("min", _ordered), AggregateFunction("max", _ordered)),
    forms=(
        AggregateForm(
            ("min(x)", "max(x)"),
            "the type of x; not for lists and structs",
            {"min": ("min(x)", "1"), "max": ("max(x)", "3")},
        ),
    ),
)
