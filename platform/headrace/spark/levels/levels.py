"""A physical plan as levels, between which Spark shuffles. Pure.

    level 0   source tasks, one partition for each share of their splits
    level k   tasks all of whose inputs come from lower levels, and one of them from level k - 1; a partition a subtask
    level n   past the last one: the driver, where reports end

A level's partitions are those of its tasks, one task after the other. A blob for a level beyond the next one passes
through the levels in between, in any of their partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.plan.physical import PhysicalPlan, SourceSpec, Task


@dataclass(frozen=True, slots=True)
class Station:
    """The place of a task: its level, its first partition there, and its number of partitions."""

    level: int
    first: int
    width: int


@dataclass(frozen=True, slots=True)
class Levels:
    """widths: partitions of each level; stations: task -> its place."""

    widths: tuple[int, ...]
    stations: Mapping[str, Station]

    def at(self, level: int, partition: int) -> tuple[str, int]:
        """Returns the task in a partition of a level, and the partition's index within the task."""
        for task, station in self.stations.items():
            if station.level == level and station.first <= partition < station.first + station.width:
                return task, partition - station.first
        raise AssertionError(f"level {level} has no partition {partition}")

    def next_hop(self, level: int, *, to_level: int, to_partition: int) -> int:
        """Returns the partition of level + 1 for a blob on its way from `level`."""
        if to_level == level + 1:
            return to_partition
        return to_partition % self.widths[level + 1]


def levels_of(plan: PhysicalPlan, shares: Mapping[str, int]) -> Levels:
    """Returns the levels of a plan. shares: source task -> partitions that read its splits."""
    depth: dict[str, int] = {}
    # the plan's tasks are in topological order
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
