"""The state of each aggregate function. A new family is a line here, and one in `expr.aggregates.table`."""

from __future__ import annotations

from collections.abc import Callable

from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates import arg_extremes, count, extremes, first_last, logic, quantiles, spreads, sums
from headrace.operators.aggregates.needs import StateNeeds
from headrace.operators.aggregates.state import CallState

_FAMILIES: tuple[tuple[tuple[str, ...], Callable[[AggregateCall, StateNeeds], CallState]], ...] = (
    (("count",), count.state),
    (("sum", "avg"), sums.state),
    (("min", "max"), extremes.state),
    (("var", "var_pop", "stddev", "stddev_pop"), spreads.state),
    (("median", "quantile_cont"), quantiles.state),
    (("first", "last"), first_last.state),
    (("arg_min", "arg_max"), arg_extremes.state),
    (("bool_and", "bool_or"), logic.state),
)

STATES = {name: state for names, state in _FAMILIES for name in names}
"""Name of a function -> the state of a call of it."""
