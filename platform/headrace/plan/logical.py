"""The logical plan: nodes in flow order, each with the columns, time and kind of its outputs. Pure.

`plan_logical` walks the pipeline from sources to sinks. Each node's planner checks the node and derives its outputs;
every problem is collected. Two facts flow from consumers to producers, and are determined afterwards (`plan.needs`):
whether rows must carry their position in the total order, and whether any node uses event time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from headrace.core.errors import Problem
from headrace.plan.ends import dead_letter_sinks, plan_sink, plan_source
from headrace.plan.needs import settle_needs
from headrace.plan.nodes import LogicalNode, reference
from headrace.plan.partitioning import Forward
from headrace.plan.problems import Locator, Problems, UnknownInputError
from headrace.plan.stream import Stream
from headrace.plan.verbs.table import plan_step
from headrace.spec.pipeline import Pipeline

Reference = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LogicalPlan:
    """Every node that feeds a sink, in flow order (inputs before their readers)."""

    pipeline: str
    nodes: tuple[LogicalNode, ...]
    max_parallelism: int

    def node(self, name: str) -> LogicalNode:
        """The node with this name."""
        return next(node for node in self.nodes if node.name == name)

    @property
    def replayable(self) -> bool:
        """Whether the result depends on the log alone."""
        return not any(node.not_replayable for node in self.nodes)


@dataclass(slots=True)
class _Walk:
    pipeline: Pipeline
    problems: Problems
    nodes: dict[str, LogicalNode] = field(default_factory=dict)
    streams: dict[Reference, Stream] = field(default_factory=dict)

    def add(self, node: LogicalNode) -> None:
        self.nodes[node.name] = node
        self.streams |= {(node.name, output): stream for output, stream in node.outputs.items()}

    @contextmanager
    def planning(self, name: str) -> Iterator[None]:
        """Leaves a node that has problems, and keeps the outputs that it has in spite of them."""
        try:
            yield
        except UnknownInputError as error:
            self.streams |= {(name, output): stream for output, stream in error.outputs.items()}

    def inputs(self, references: tuple[str, ...]) -> list[Stream]:
        """The streams that a node reads. Raises UnknownInputError if one of them could not be planned."""
        found = [self.streams.get(reference(text)) for text in references]
        if any(stream is None for stream in found):
            raise UnknownInputError
        return [stream for stream in found if stream is not None]


def plan_logical(pipeline: Pipeline, locator: Locator | None = None) -> LogicalPlan:
    """Plans a pipeline with a valid structure. Raises InvalidPipelineError with every problem, in file order."""
    problems = Problems(locator, pipeline.hidden)
    nodes = _plan_nodes(pipeline, problems)
    problems.raise_if_any()
    return LogicalPlan(pipeline.name, settle_needs(_reachable(nodes)), pipeline.max_parallelism)


def problems_of(readable: Pipeline, locator: Locator | None = None) -> list[Problem]:
    """The problems of the nodes that could be read of an invalid pipeline, in file order.

    `readable` may lack nodes that others name. A node whose inputs are unknown is not checked.
    """
    problems = Problems(locator, readable.hidden)
    _plan_nodes(readable, problems)
    return problems.found


def _plan_nodes(pipeline: Pipeline, problems: Problems) -> dict[str, LogicalNode]:
    walk = _Walk(pipeline, problems)
    for name, source in pipeline.sources.items():
        with walk.planning(name):
            walk.add(plan_source(name, source, pipeline, problems))
    for name in _flow_order(pipeline):
        with walk.planning(name):
            if name in pipeline.steps:
                step = pipeline.steps[name]
                walk.add(plan_step(name, step, walk.inputs(step.inputs), pipeline, problems))
            else:
                sink = pipeline.sinks[name]
                walk.add(plan_sink(name, sink, walk.inputs((sink.from_,))[0], pipeline, problems))
    for node in dead_letter_sinks(pipeline, walk.nodes, problems):
        walk.add(node)
    _check_forward(walk)
    return walk.nodes


def _check_forward(walk: _Walk) -> None:
    for node in walk.nodes.values():
        for read in node.inputs:
            above = walk.nodes.get(read.source) if isinstance(read.partitioning, Forward) else None
            if above is not None and above.parallelism != node.parallelism:
                group = "sinks" if node.is_sink else "steps"
                walk.problems.add(
                    (group, node.name, "partition"),
                    f"forward needs equal parallelism: {read.source} has {above.parallelism}, "
                    f"{node.name} has {node.parallelism}",
                    "give both the same parallelism, or use rebalance",
                )


def _flow_order(pipeline: Pipeline) -> list[str]:
    """Steps and sinks with inputs before their readers; else steps first, in file order. Leaves out nodes below a
    missing one or a cycle."""
    inputs = {name: step.inputs for name, step in pipeline.steps.items()}
    inputs |= {name: (sink.from_,) for name, sink in pipeline.sinks.items()}
    done = set(pipeline.sources)
    order: list[str] = []
    left = list(inputs)
    while left:
        ready = next((name for name in left if all(reference(text)[0] in done for text in inputs[name])), None)
        if ready is None:
            break
        left.remove(ready)
        done.add(ready)
        order.append(ready)
    return order


def _reachable(nodes: Mapping[str, LogicalNode]) -> tuple[LogicalNode, ...]:
    """Nodes that feed a sink. The others have been checked, but do not run."""
    wanted: set[str] = set()
    for node in reversed(list(nodes.values())):
        if node.is_sink or node.name in wanted:
            wanted |= {node.name, *(read.source for read in node.inputs)}
    return tuple(replace(node) for node in nodes.values() if node.name in wanted)
