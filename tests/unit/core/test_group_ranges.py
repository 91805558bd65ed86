"""Every subtask owns a range of key groups, and every key group has one owner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.group_ranges import group_range, group_span, subtask_of


@given(st.integers(1, 300).flatmap(lambda most: st.tuples(st.integers(1, most), st.just(most))))
def test_ranges_are_the_groups_of_each_subtask(sizes: tuple[int, int]) -> None:
    parallelism, most = sizes
    owners: list[list[int]] = [[] for _ in range(parallelism)]
    for group in range(most):
        owners[subtask_of(group, parallelism, most)].append(group)
    assert [list(group_range(subtask, parallelism, most)) for subtask in range(parallelism)] == owners
    assert all(owners), "every subtask owns a group"
    assert [group_span(subtask, parallelism, most) for subtask in range(parallelism)] == [
        (own[0], own[-1]) for own in owners
    ]
