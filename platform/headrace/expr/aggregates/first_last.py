"""first and last: the value of the first or last row that has one, in the total order of rows."""

from __future__ import annotations

from headrace.expr.aggregates.function import AggregateForm, AggregateFunction, Family, same_type

FAMILY = Family(
    functions=(
        AggregateFunction("first", same_type, order_sensitive=True),
        AggregateFunction("last", same_type, order_sensitive=True),
    ),
    forms=(
        AggregateForm(
            ("first(x)", "last(x)"),
            "the type of x; by the total order of rows, not by arrival",
            {"first": ("first(x)", "3"), "last": ("last(x) filter (where x < 3)", "1")},
        ),
    ),
)
