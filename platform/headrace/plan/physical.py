"""The physical plan: tasks (fused chains with a parallelism) and the edges between them. Frozen; has a canonical form.

Data only; `plan.chaining` builds a plan, `plan.explain` renders it, engines run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.connect.format import FormatConfig
from headrace.connect.sink import CheckpointTerms, SinkConfig
from headrace.connect.source import SourceConfig
from headrace.core.step_definition import StepDefinition
from headrace.core.types import Schema
from headrace.operators.operator import OnError, OperatorConfig
from headrace.plan.partitioning import Hash, Partitioning
from headrace.state.place import UNSAID, StateTerms


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """The format beside a connector: its name and options, and contents of the files that these name."""

    name: str
    config: FormatConfig
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class RowTime:
    """Event time of each row: a timestamp expression over the source's columns."""

    expression: str
    out_of_orderness_ms: int
    idle_after_ms: int | None = None
    max_drift_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecordTime:
    """Event time is the record's own timestamp."""

    out_of_orderness_ms: int = 0
    idle_after_ms: int | None = None
    max_drift_ms: int | None = None


TimeSpec = RowTime | RecordTime | None
"""None: rows have no event time, or no node uses it."""


NO_COLUMNS = Schema(())


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source node, ready to open.

    schema    declared columns: what the format decodes
    output    declared columns, then those of the key, then the metadata columns
    metadata  (metadata field, column name)
    order_columns    rows carry their position in the total order
    keeps_headers    bad records carry their headers, for dead letters
    key_format, key_schema   what decodes the records' keys, and to which columns; None and empty: nothing does
    """

    node: str
    connector: str
    config: SourceConfig
    format: FormatSpec | None
    schema: Schema
    output: Schema
    metadata: tuple[tuple[str, str], ...]
    time: TimeSpec
    on_error: OnError
    order_columns: bool
    keeps_headers: bool = False
    key_format: FormatSpec | None = None
    key_schema: Schema = NO_COLUMNS

    @property
    def out_of_orderness_ms(self) -> int:
        """How far rows may lag behind the latest one; 0 without event time."""
        return 0 if self.time is None else self.time.out_of_orderness_ms


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step node, ready to open."""

    node: str
    verb: str
    config: OperatorConfig
    output: Schema


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink node, ready to open.

    schema    visible columns of the incoming rows
    encoded   the columns that the format encodes: all of them, or the `value` of a dead letter
    update_key   key of an updating edge, or None
    implicit  made by the plan (dead letters), not by the user
    on_error  the policy for rows that cannot be written
    key_format   what encodes the key columns; None: the connector does
    """

    node: str
    connector: str
    config: SinkConfig
    format: FormatSpec | None
    schema: Schema
    encoded: Schema
    update_key: tuple[str, ...] | None
    implicit: bool = False
    on_error: OnError = OnError.FAIL
    key_format: FormatSpec | None = None

    @property
    def key_schema(self) -> Schema:
        """The columns of the key, in its order; empty without a key."""
        return Schema(tuple(self.schema.field(name) for name in self.config.key_columns or ()))


TaskNode = SourceSpec | StepSpec | SinkSpec


@dataclass(frozen=True, slots=True)
class ChainEdge:
    """Inside a task: `output` of node `source` ("" is the main one) feeds node `target` directly."""

    source: str
    output: str
    target: str


@dataclass(frozen=True, slots=True)
class Task:
    """A chain with a parallelism. The first node is its head; its name names the task."""

    nodes: tuple[TaskNode, ...]
    edges: tuple[ChainEdge, ...]
    parallelism: int

    @property
    def name(self) -> str:
        """The head's node name."""
        return self.nodes[0].node


@dataclass(frozen=True, slots=True)
class TaskEdge:
    """Between tasks: `output` of node `source` in task `from_task` feeds input `input` of the head of task `to_task`.

    input       number of the input, so that edges differ also where a node reads one output twice
    columns     visible columns in the consumer's order
    order_columns   whether the order columns are sent too
    """

    from_task: str
    source: str
    output: str
    to_task: str
    partitioning: Partitioning
    columns: tuple[str, ...]
    order_columns: bool
    input: int = 0


def keys_of(inputs: Sequence[TaskEdge]) -> tuple[tuple[str, ...], ...] | None:
    """The key columns by which the rows of each input are spread; None: those of one of them are spread otherwise."""
    keys = tuple(edge.partitioning.keys for edge in inputs if isinstance(edge.partitioning, Hash))
    return keys if inputs and len(keys) == len(inputs) else None


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Everything that an engine needs to run a pipeline."""

    pipeline: str
    max_parallelism: int
    batch_rows_max: int
    batch_delay_ms: int
    checkpoint: CheckpointTerms
    tasks: tuple[Task, ...]
    edges: tuple[TaskEdge, ...]
    state: StateTerms = UNSAID

    def inputs(self, task: str) -> tuple[TaskEdge, ...]:
        """The edges into a task, by number of the input."""
        return tuple(sorted((edge for edge in self.edges if edge.to_task == task), key=lambda edge: edge.input))

    def task(self, name: str) -> Task:
        """The task with this name."""
        return next(task for task in self.tasks if task.name == name)

    def windowed(self) -> dict[str, tuple[str, ...]]:
        """Step that waits for event time -> the sources from which its rows come."""
        steps = (node for task in self.tasks for node in task.nodes if isinstance(node, StepSpec))
        return {step.node: self._sources_of(step.node) for step in steps if step.config.windowed}

    def _sources_of(self, node: str) -> tuple[str, ...]:
        senders: dict[str, set[str]] = {}
        for task in self.tasks:
            for edge in task.edges:
                senders.setdefault(edge.target, set()).add(edge.source)
        for between in self.edges:
            senders.setdefault(between.to_task, set()).add(between.source)
        seen, left = {node}, [node]
        while left:
            for sender in senders.get(left.pop(), set()) - seen:
                seen.add(sender)
                left.append(sender)
        every = [spec for task in self.tasks for spec in task.nodes]
        return tuple(spec.node for spec in every if isinstance(spec, SourceSpec) and spec.node in seen)

    @property
    def definitions(self) -> Mapping[str, StepDefinition]:
        """Step -> what it computes from its state, for steps whose state has other columns than their output."""
        steps = (node for task in self.tasks for node in task.nodes if isinstance(node, StepSpec))
        found = {step.node: step.config.definition() for step in steps}
        return {node: definition for node, definition in found.items() if definition is not None}

    @property
    def bounded(self) -> bool:
        """Whether all sources end without being stopped."""
        nodes = (node for task in self.tasks for node in task.nodes)
        return all(node.config.bounded for node in nodes if isinstance(node, SourceSpec))
