"""Every function of the language has a state."""

from __future__ import annotations

from headrace.expr.aggregates.table import AGGREGATE_EXAMPLES, AGGREGATES
from headrace.operators.aggregates.table import STATES


def test_every_function_has_a_state_and_every_name_an_example() -> None:
    assert set(STATES) == {function.name for function in AGGREGATES.values()}
    assert set(AGGREGATE_EXAMPLES) == set(AGGREGATES)
