"""What a job needs to know of its plan at one parallelism. Shapes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A physical plan, as far as it matters for control.

    slots         processes that it takes: the greatest parallelism of a task
    sources       source -> subtasks
    nodes         node -> what it is (`source`, verb of a step, `sink`)
    parallelism   node -> subtasks
    timed         sources with event time; idle: those of them whose partitions may be idle
    drift         source -> `max_drift` in ms, where it has one
    commit_within_ms   how long prepared output waits to be committed before the outside gives it up; None: for ever
    """

    plan_hash: str
    slots: int
    max_parallelism: int
    sources: Mapping[str, int]
    nodes: Mapping[str, str]
    parallelism: Mapping[str, int]
    timed: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    drift: Mapping[str, int] = field(default_factory=dict)
    commit_within_ms: int | None = None


Planner = Callable[[int], PlanFacts]
"""The facts at a parallelism. Pure."""
Namer = Callable[[int, int], Mapping[str, tuple[str, ...]]]
"""Sink -> the names under which attempt a at parallelism p may leave output open: `namer(p, a)`. Pure."""


def no_names(parallelism: int, attempt: int) -> Mapping[str, tuple[str, ...]]:
    """The namer of a job without such sinks."""
    return {}
