"""arg_min and arg_max: the value of one argument where another one is least or greatest."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import DataType
from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, require_order


def _of_ordered(name: str, types: Sequence[DataType]) -> DataType:
    value, by = types
    require_order(name, by)
    return value


FAMILY = Family(
    functions=(
        AggregateFunction("arg_min", _of_ordered, ("min_by",), order_sensitive=True, arguments=2),
        AggregateFunction("arg_max", _of_ordered, ("max_by",), order_sensitive=True, arguments=2),
    ),
    forms=(
        AggregateForm(
            ("arg_min(x, y)", "min_by(x, y)", "arg_max(x, y)", "max_by(x, y)"),
            "the type of x: its value where y is least, greatest; rows where one of them is NULL do not count; of "
            "several such rows the first in the total order of rows",
            {
                "arg_min": ("arg_min(x, -x)", "3"),
                "min_by": ("min_by(x + 1, x)", "2"),
                "arg_max": ("arg_max(x, -x)", "1"),
                "max_by": ("max_by(x + 1, x)", "4"),
            },
        ),
    ),
)
