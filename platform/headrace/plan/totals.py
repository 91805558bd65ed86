"""A job's totals in four numbers, from the counters of its nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.plan.physical import PhysicalPlan, SinkSpec, SourceSpec


def row_totals(plan: PhysicalPlan, counters: Mapping[str, Mapping[str, int]]) -> tuple[int, int, int, int]:
    """rows_in, rows_out, late and bad of a job. Rows written by implicit sinks (dead letters) count as bad, not as
    out."""

    def total(counter: str, kind: type[SourceSpec] | type[SinkSpec]) -> int:
        nodes = [node for task in plan.tasks for node in task.nodes if isinstance(node, kind)]
        wanted = [node.node for node in nodes if isinstance(node, SourceSpec) or not node.implicit]
        return sum(counters.get(name, {}).get(counter, 0) for name in wanted)

    late, bad = (sum(own.get(counter, 0) for own in counters.values()) for counter in ("late", "bad"))
    return total("rows_in", SourceSpec), total("rows_out", SinkSpec), late, bad
