"""What consumers ask of producers: the total order of rows, and event time. Settled backwards, from sinks to sources.

Rows carry order columns only where an operator downstream is order-sensitive or can fail (its error names the row's
source position), and a source that would have to ask for each record's timestamp does so only where time is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.operators.aggregate import AggregateConfig
from headrace.plan.nodes import LogicalNode
from headrace.plan.physical import RecordTime, SinkSpec, SourceSpec, StepSpec


def settle_needs(nodes: Sequence[LogicalNode]) -> tuple[LogicalNode, ...]:
    """The same nodes (in flow order), with sources and aggregates told what is asked of them."""
    order: dict[str, bool] = {}
    time: dict[str, bool] = {}
    readers = _readers(nodes)
    settled: list[LogicalNode] = []
    for node in reversed(nodes):
        below = readers.get(node.name, [])
        order[node.name] = any(reads_order(reader, order) for reader in below)
        time[node.name] = any(reader.needs_time or time[reader.name] for reader in below)
        settled.append(_told(node, order=order[node.name], time=time[node.name]))
    return tuple(reversed(settled))


def reads_order(reader: LogicalNode, asked: Mapping[str, bool]) -> bool:
    """Whether a node wants order columns on its input. `asked`: node -> whether they are wanted on its output."""
    if reader.needs_order:
        return True
    return not _makes_rows(reader) and asked[reader.name]


def _makes_rows(node: LogicalNode) -> bool:
    return isinstance(node.spec, StepSpec) and isinstance(node.spec.config, AggregateConfig)


def _readers(nodes: Sequence[LogicalNode]) -> dict[str, list[LogicalNode]]:
    readers: dict[str, list[LogicalNode]] = {}
    for node in nodes:
        for source, _ in node.inputs:
            readers.setdefault(source, []).append(node)
    return readers


def _told(node: LogicalNode, *, order: bool, time: bool) -> LogicalNode:
    spec = node.spec
    match spec:
        case SourceSpec():
            kept = spec.time if time or not isinstance(spec.time, RecordTime) else None
            return replace(node, spec=replace(spec, order_columns=order, time=kept))
        case StepSpec():
            if isinstance(spec.config, AggregateConfig) and order:
                return replace(node, spec=replace(spec, config=replace(spec.config, order_output=True)))
            return node
        case SinkSpec():
            return node
