"""The families of aggregate functions. A new family is a line here, and one in `operators.aggregates.table`."""

from __future__ import annotations

from headrace.expr.aggregates import arg_extremes, count, extremes, first_last, logic, quantiles, spreads, sums
from headrace.expr.aggregates.function import AggregateForm, AggregateFunction

FAMILIES = (
    count.FAMILY,
    sums.FAMILY,
    extremes.FAMILY,
    spreads.FAMILY,
    quantiles.FAMILY,
    first_last.FAMILY,
    arg_extremes.FAMILY,
    logic.FAMILY,
)
"""In the order of the reference."""

AGGREGATES: dict[str, AggregateFunction] = {
    name: function
    for family in FAMILIES
    for function in family.functions
    for name in (function.name, *function.synonyms)
}
"""Name or synonym -> function."""

AGGREGATE_FORMS: tuple[AggregateForm, ...] = tuple(form for family in FAMILIES for form in family.forms)

AGGREGATE_EXAMPLES: dict[str, tuple[str, str]] = {
    name: example for form in AGGREGATE_FORMS for name, example in form.examples.items()
}
"""Name -> a call over the rows of `functions.examples.AGGREGATE_ROWS`, and its result."""
