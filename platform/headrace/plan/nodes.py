"""One node of a logical plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.ids import split_output
from headrace.operators.chain import MAIN
from headrace.plan.partitioning import Partitioning
from headrace.plan.physical import SinkSpec, TaskNode
from headrace.plan.stream import Stream


@dataclass(frozen=True, slots=True)
class NodeInput:
    """One input of a node: `output` of node `source` ("" is the main one).

    partitioning    how its rows are spread; None: by the parallelism on both sides (forward or rebalance)
    """

    source: str
    output: str = MAIN
    partitioning: Partitioning | None = None

    @property
    def reference(self) -> tuple[str, str]:
        """The output that it reads."""
        return self.source, self.output


@dataclass(frozen=True, slots=True)
class LogicalNode:
    """A node with its inputs and outputs.

    inputs          by number, from 0; two of them may read the same output
    outputs         output name ("" is the main one) -> its stream
    not_replayable  reasons why its result does not depend on the log alone
    needs_order     it uses the total order (or the source position) of its input rows
    needs_time      it uses the event time of its input rows
    """

    name: str
    spec: TaskNode
    inputs: tuple[NodeInput, ...]
    outputs: Mapping[str, Stream]
    parallelism: int
    not_replayable: tuple[str, ...] = ()
    needs_order: bool = False
    needs_time: bool = False

    @property
    def is_sink(self) -> bool:
        """Whether the node is a sink."""
        return isinstance(self.spec, SinkSpec)


def reference(text: str) -> tuple[str, str]:
    """`hourly.late` -> (hourly, late); `hourly` -> (hourly, MAIN)."""
    node, output = split_output(text)
    return node, output if output is not None else MAIN
