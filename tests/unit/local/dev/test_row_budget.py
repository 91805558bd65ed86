"""Rows beyond a sink's budget of a second are counted, and told once that second is over."""

from __future__ import annotations

from headrace.local.dev.row_budget import RowBudget


def test_a_budget_is_for_a_second() -> None:
    budget = RowBudget(3)
    assert [budget.take(2, 10.0), budget.take(2, 10.5), budget.take(5, 10.9)] == [2, 1, 0]
    assert budget.settle(10.9) == 0, "the second is not over"
    assert budget.settle(11.0) == 6
    assert budget.settle(11.1) == 0
    assert budget.take(4, 11.2) == 3
    assert budget.left_out == 1
