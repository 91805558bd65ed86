from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.state.runs import RUNS_A_TIER, RUNS_MAX, due


def merged(runs: list[int]) -> tuple[list[int], int]:
    """The runs after all merges that are due, and the rows that were written; no rows merge away."""
    written = 0
    while (first := due(runs)) is not None:
        written += sum(runs[first:])
        runs = [*runs[:first], sum(runs[first:])]
    return runs, written


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=300))
def test_runs_stay_few_and_rows_are_written_once_a_tier(sealed: list[int]) -> None:
    runs: list[int] = []
    written = 0
    for rows in sealed:
        runs, more = merged([*runs, rows])
        written += more
    tiers = 1
    while 4096 * RUNS_A_TIER ** (tiers - 1) < sum(sealed):
        tiers += 1
    assert len(runs) <= min(RUNS_MAX, (RUNS_A_TIER - 1) * tiers + tiers)
    assert written <= sum(sealed) * tiers * 2


def test_four_runs_of_a_tier_merge_with_what_is_newer_and_smaller() -> None:
    assert due([]) is None
    assert due([10, 10, 10]) is None
    assert due([10, 10, 10, 10]) == 0
    assert due([1_000_000, 10, 10, 10, 10]) == 1
    assert due([5000, 5000, 10, 5000, 5000]) == 0, "a smaller run between them merges, too"
    assert due([10, 1_000_000, 10, 10, 10]) is None, "only neighbours in time merge"


def test_too_many_runs_merge_whatever_their_sizes() -> None:
    rows = [4**place for place in range(40)]
    assert due(rows[:3]) is None
    assert due(rows[: RUNS_MAX + 1]) == 0
