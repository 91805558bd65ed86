"""Every function of the language has a state, and a line where pages and tests list functions."""

from __future__ import annotations

from headrace.expr.aggregates.table import AGGREGATE_EXAMPLES, AGGREGATES, FAMILIES
from headrace.operators.aggregates.table import STATES
from support.oracles import aggregates as oracle
from support.repository import ROOT


def test_every_function_has_a_state_and_every_name_an_example() -> None:
    assert set(STATES) == {function.name for function in AGGREGATES.values()}
    assert set(AGGREGATE_EXAMPLES) == set(AGGREGATES)


def test_every_function_has_an_oracle() -> None:
    """Windows and restores are tested with these calls."""
    calls = " ".join(call for call, _ in oracle.AGGREGATES.values())
    assert [name for name in STATES if f"{name}(" not in calls] == []


def test_the_page_about_state_says_what_users_supply_for_every_family() -> None:
    page = (ROOT / "docs/state.md").read_text(encoding="utf-8")
    families = [[function.name for function in family.functions] for family in FAMILIES]
    assert [names for names in families if not any(f"{name}(" in page for name in names)] == []
