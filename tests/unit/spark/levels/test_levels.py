from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.physical import PhysicalPlan
from headrace.spark.levels.levels import Levels, levels_of
from unit.spark.plans import COUNT, plan_of


def shared() -> tuple[PhysicalPlan, Levels]:
    """`one` goes to a join of two levels, `two` straight past the first of them."""
    steps = {
        "spread": {"from": "one", "with_columns": {"m": "id + 1"}, "partition": "rebalance"},
        "small": {"from": "spread", "select": ["id", "key"]},
        "both": {"union": ["small", "two"]},
        "counts": {"from": "both", **COUNT, "parallelism": 2},
    }
    plan = plan_of(steps, "counts")
    return plan, levels_of(plan, {"one": 4, "two": 2})


def test_a_task_stands_below_all_that_it_reads() -> None:
    plan, levels = shared()
    for edge in plan.edges:
        assert levels.stations[edge.from_task].level < levels.stations[edge.to_task].level
    for task in plan.tasks:
        reads = [levels.stations[edge.from_task].level for edge in plan.edges if edge.to_task == task.name]
        assert levels.stations[task.name].level == max(reads, default=-1) + 1


def test_partitions_of_a_level_are_those_of_its_tasks() -> None:
    plan, levels = shared()
    assert levels.widths[0] == 6
    found = [levels.at(level, partition) for level, width in enumerate(levels.widths) for partition in range(width)]
    widths = {"one": 4, "two": 2}
    expected = {(task.name, i) for task in plan.tasks for i in range(widths.get(task.name, task.parallelism))}
    assert set(found) == expected
    assert len(found) == len(expected)
    with pytest.raises(AssertionError):
        levels.at(0, 6)


@given(to_level=st.integers(1, 5), to_partition=st.integers(0, 50), start=st.integers(0, 4))
def test_everything_comes_to_its_place(to_level: int, to_partition: int, start: int) -> None:
    levels = Levels((3, 2, 4, 1, 7, 60), {})
    to_partition %= levels.widths[to_level]
    at = -1
    for level in range(min(start, to_level - 1), to_level):
        at = levels.next_hop(level, to_level=to_level, to_partition=to_partition)
        assert at < levels.widths[level + 1]
    assert at == to_partition
