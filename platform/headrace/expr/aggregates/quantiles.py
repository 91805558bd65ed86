"""median and quantile_cont."""

from __future__ import annotations

from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, float_of_number

FAMILY = Family(
    functions=(
        AggregateFunction("median", float_of_number),
        AggregateFunction("quantile_cont", float_of_number, shares=1),
    ),
    forms=(
        AggregateForm(
            ("median(x)", "quantile_cont(x, q)"),
            "`float64`; q is a number from 0 to 1 with at most 9 digits after the point, 0.5 the median; between two "
            "values interpolated; exact, so the state has each distinct value of a group with its count",
            {"median": ("median(x)", "3.0"), "quantile_cont": ("quantile_cont(x, 0.25)", "2.0")},
        ),
    ),
)
