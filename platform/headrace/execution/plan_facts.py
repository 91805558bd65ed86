"""A plan's facts for a job's machine, at one parallelism. Shapes only: `execution.planning` computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.core.step_definition import StepDefinition


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The control facts of a physical plan.

    slots              processes that it needs: the greatest parallelism of a task
    sources            source -> subtasks
    nodes              node -> its kind (`source`, verb of a step, `sink`)
    parallelism        node -> subtasks
    timed              sources with event time; idle: those of them whose partitions may be idle
    drift              source -> `max_drift` in ms, if it has one
    meetings           for each step that waits for time, the sources of its rows
    commit_within_ms   how long prepared output may wait for its commit before its transaction expires; None: forever
    definitions        step -> what it computes from its state
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
    meetings: tuple[tuple[str, ...], ...] = ()
    commit_within_ms: int | None = None
    definitions: Mapping[str, StepDefinition] = field(default_factory=dict)


Planner = Callable[[int], PlanFacts]
"""Returns the facts at a parallelism. Pure."""
Namer = Callable[[int, int], Mapping[str, tuple[str, ...]]]
"""`namer(p, a)` returns sink -> the transaction names of attempt a at parallelism p. Pure."""


def no_names(parallelism: int, attempt: int) -> Mapping[str, tuple[str, ...]]:
    """The namer of a job without transactional sinks."""
    return {}
