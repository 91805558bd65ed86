"""Requirements of consumers on producers: the total order of rows, and event time. Propagated from sinks to sources.

Rows carry order columns only if an operator downstream is order-sensitive or can fail (its error names the row's source
position). A source reads each record's timestamp only if event time is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.operators.chain import MAIN
from headrace.plan.nodes import LogicalNode
from headrace.plan.physical import RecordTime, SinkSpec, SourceSpec, StepSpec

OrderWanted = Mapping[tuple[str, str], bool]
"""(node, output) -> whether a reader of that output needs order columns."""


def settle_needs(nodes: Sequence[LogicalNode]) -> tuple[LogicalNode, ...]:
    """The same nodes (in flow order), with the requirements of their readers set on sources and steps."""
    order = order_wanted(nodes)
    time: dict[str, bool] = {}
    settled: list[LogicalNode] = []
    for node in reversed(nodes):
        below = [reader for reader in nodes if node.name in {read.source for read in reader.inputs}]
        time[node.name] = any(reader.needs_time or time[reader.name] for reader in below)
        settled.append(_told(node, order, time=time[node.name]))
    return tuple(reversed(settled))


def order_wanted(nodes: Sequence[LogicalNode]) -> OrderWanted:
    """The outputs (of nodes in flow order) that need order columns."""
    wanted: dict[tuple[str, str], bool] = {}
    for node in reversed(nodes):
        wanted |= {(node.name, output): False for output in node.outputs}
        for reader in nodes:
            for read in reader.inputs:
                if read.source == node.name and reads_order(reader, wanted):
                    wanted[read.reference] = True
    return wanted


def reads_order(reader: LogicalNode, wanted: OrderWanted) -> bool:
    """Whether a node needs order columns on its input: for itself, or because it passes input rows on."""
    if reader.needs_order:
        return True
    return any(wanted[reader.name, output] for output in reader.outputs if output != MAIN or not _makes_rows(reader))


def _makes_rows(node: LogicalNode) -> bool:
    """Whether the rows of the main output are new ones; side outputs always hold input rows."""
    return isinstance(node.spec, StepSpec) and node.spec.config.makes_rows


def _told(node: LogicalNode, order: OrderWanted, *, time: bool) -> LogicalNode:
    spec = node.spec
    match spec:
        case SourceSpec():
            kept = spec.time if time or not isinstance(spec.time, RecordTime) else None
            return replace(node, spec=replace(spec, order_columns=order[node.name, MAIN], time=kept))
        case StepSpec():
            config = spec.config.ordered() if order[node.name, MAIN] else spec.config
            return replace(node, spec=replace(spec, config=config))
        case SinkSpec():
            return node
