"""From logical nodes to tasks: nodes whose rows stay in the same subtask are fused into one chain. Pure.

A node joins the task of its producer if it reads one input, forward, at equal parallelism. Every other edge (a key by,
a change of parallelism) starts a new task, and a node with several inputs always does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core.types import ListOf, Schema, Struct
from headrace.plan.checkpoint_terms import checkpoint_terms
from headrace.plan.logical import LogicalPlan
from headrace.plan.needs import OrderWanted, order_wanted, reads_order
from headrace.plan.nodes import LogicalNode, NodeInput
from headrace.plan.partitioning import Forward, Global, Hash, Partitioning, Rebalance
from headrace.plan.physical import ChainEdge, PhysicalPlan, SinkSpec, StepSpec, Task, TaskEdge, TaskNode
from headrace.spec.pipeline import Pipeline


@dataclass(slots=True)
class _OpenTask:
    parallelism: int
    nodes: list[TaskNode] = field(default_factory=list)
    edges: list[ChainEdge] = field(default_factory=list)


def plan_physical(logical: LogicalPlan, pipeline: Pipeline) -> PhysicalPlan:
    """The tasks and edges of a logical plan."""
    nodes = {node.name: node for node in logical.nodes}
    task_of: dict[str, str] = {}
    tasks: dict[str, _OpenTask] = {}
    edges: list[TaskEdge] = []
    ordered = order_wanted(logical.nodes)
    for node in logical.nodes:
        home = _home(node, nodes, task_of)
        if home is None:
            tasks[node.name] = _OpenTask(node.parallelism)
            task_of[node.name] = node.name
            edges += [_edge(node, number, nodes, task_of, ordered) for number in range(len(node.inputs))]
        else:
            task_of[node.name] = home
            (only,) = node.inputs
            tasks[home].edges.append(ChainEdge(only.source, only.output, node.name))
        tasks[task_of[node.name]].nodes.append(node.spec)
    return PhysicalPlan(
        pipeline=pipeline.name,
        max_parallelism=pipeline.max_parallelism,
        batch_rows_max=pipeline.batch.max_rows,
        batch_delay_ms=pipeline.batch.max_delay_ms,
        checkpoint=checkpoint_terms(pipeline),
        tasks=tuple(Task(tuple(task.nodes), tuple(task.edges), task.parallelism) for task in tasks.values()),
        edges=tuple(edges),
        state=pipeline.state.terms(),
    )


def _partitioning(node: LogicalNode, read: NodeInput, nodes: Mapping[str, LogicalNode]) -> Partitioning:
    """The partitioning of the rows of one input of `node` over its subtasks."""
    producer = nodes[read.source]
    same = producer.parallelism == node.parallelism
    asked = read.partitioning
    if isinstance(asked, Hash | Global) and same and node.parallelism == 1:
        return Forward()
    if asked is not None:
        return asked
    if same:
        return Forward()
    stream = producer.outputs[read.output]
    if stream.update_key is not None:
        return Hash(stream.owner_keys) if stream.owner_keys else Global()
    if isinstance(node.spec, SinkSpec):
        return _by_key(node.spec, stream.schema)
    return Rebalance()


def _by_key(spec: SinkSpec, schema: Schema) -> Partitioning:
    """Keeps rows of one sink key in order through a change of parallelism, if the key is hashable."""
    keys = spec.config.key_columns or ()
    hashable = all(name in schema and not isinstance(schema.field(name).type, ListOf | Struct) for name in keys)
    return Hash(tuple(keys)) if keys and hashable else Rebalance()


def _home(node: LogicalNode, nodes: Mapping[str, LogicalNode], task_of: Mapping[str, str]) -> str | None:
    """The task that the node joins, or None if it heads a task."""
    if len(node.inputs) != 1:
        return None
    (only,) = node.inputs
    if isinstance(_partitioning(node, only, nodes), Forward) and (nodes[only.source].parallelism == node.parallelism):
        return task_of[only.source]
    return None


def _edge(
    node: LogicalNode,
    number: int,
    nodes: Mapping[str, LogicalNode],
    task_of: Mapping[str, str],
    ordered: OrderWanted,
) -> TaskEdge:
    read = node.inputs[number]
    if isinstance(node.spec, StepSpec):
        schema = node.spec.config.input_schemas()[number]
    else:
        schema = nodes[read.source].outputs[read.output].schema
    return TaskEdge(
        from_task=task_of[read.source],
        source=read.source,
        output=read.output,
        to_task=node.name,
        partitioning=_partitioning(node, read, nodes),
        columns=schema.names,
        order_columns=reads_order(node, ordered),
        input=number,
    )
