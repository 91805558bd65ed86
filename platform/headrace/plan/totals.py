"""A job's totals in four numbers, from the counters of its nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec


def source_names(plan: PhysicalPlan) -> list[str]:
    """The sources of a plan."""
    return [node.node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]


def explicit_sinks(plan: PhysicalPlan) -> list[str]:
    """The sinks that the pipeline names: not the implicit ones, which dead letters go to."""
    return [node.node for task in plan.tasks for node in task.nodes if isinstance(node, SinkSpec) and not node.implicit]


def row_totals(plan: PhysicalPlan, counters: Mapping[str, Mapping[str, int]]) -> tuple[int, int, int, int]:
    """rows_in, rows_out, late and bad of a job. Rows written by implicit sinks (dead letters) count as bad, not as
    out."""

    def total(counter: str, nodes: list[str]) -> int:
        return sum(counters.get(name, {}).get(counter, 0) for name in nodes)

    late, bad = (sum(own.get(counter, 0) for own in counters.values()) for counter in ("late", "bad"))
    return total("rows_in", source_names(plan)), total("rows_out", explicit_sinks(plan)), late, bad
