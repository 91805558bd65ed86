"""A physical plan as levels, between which Spark shuffles. Pure.

    level 0   source tasks, one partition for each share of their splits
    level k   tasks all of whose inputs come from lower levels, and one of them from level k - 1; a partition a subtask
    level n   past the last one: the driver, where reports end

A level's partitions are those of its tasks, one task after the other. What leaves a task for a level further down than
the next one passes through the levels in between, in any partition of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.plan.physical import PhysicalPlan, SourceSpec, Task


@dataclass(frozen=True, slots=True)
class Station:
    """Where a task runs: its level, its first partition there, and how many it has."""

    level: int
    first: int
    width: int


@dataclass(frozen=True, slots=True)
class Levels:
    """widths: partitions of each level; stations: task -> where it runs."""

    widths: tuple[int, ...]
    stations: Mapping[str, Station]

    def at(self, level: int, partition: int) -> tuple[str, int]:
        """The task in a partition of a level, and which of the task's partitions it is."""
        for task, station in self.stations.items():
            if station.level == level and station.first <= partition < station.first + station.width:
                return task, partition - station.first
        raise AssertionError(f"level {level} has no partition {partition}")

    def next_hop(self, level: int, *, to_level: int, to_partition: int) -> int:
        """The partition of level + 1 that something on its way from `level` goes to."""
        if to_level == level + 1:
            return to_partition
        return to_partition % self.widths[level + 1]


def levels_of(plan: PhysicalPlan, shares: Mapping[str, int]) -> Levels:
    """The levels of a plan. shares: source task -> partitions that read its splits."""
    depth: dict[str, int] = {}
    # tasks stand behind those that they read from
    for task in plan.tasks:
        before = [depth[edge.from_task] for edge in plan.edges if edge.to_task == task.name]
        depth[task.name] = max(before, default=-1) + 1
    widths = [0] * (max(depth.values()) + 1)
    stations: dict[str, Station] = {}
    for task in plan.tasks:
        level = depth[task.name]
        width = shares[task.name] if reads_source(task) else task.parallelism
        stations[task.name] = Station(level, widths[level], width)
        widths[level] += width
    return Levels(tuple(widths), stations)


def reads_source(task: Task) -> bool:
    """Whether the task begins with a source."""
    return isinstance(task.nodes[0], SourceSpec)
