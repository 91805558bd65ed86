"""Renders plans: as JSON-able dicts in a canonical form, and as text. Pure; secrets are masked.

`plan_dict` is the identity of a physical plan: two plans are the same if their dicts are equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

from headrace.core.config import Config, duration_text, size_text
from headrace.core.types import Schema
from headrace.operators.chain import MAIN
from headrace.operators.operator import OnError
from headrace.operators.state_shape import StateShape
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling
from headrace.plan.logical import LogicalPlan
from headrace.plan.nodes import LogicalNode
from headrace.plan.physical import (
    FormatSpec,
    PhysicalPlan,
    RecordTime,
    RowTime,
    SinkSpec,
    SourceSpec,
    StepSpec,
    TaskNode,
    TimeSpec,
)
from headrace.plan.stream import Stream
from headrace.spec.columns import schema_dict
from headrace.spec.masking import masked_config
from headrace.spec.travelling_files import file_hash
from headrace.state.place import UNSAID, StateTerms
from headrace.state.snapshot import StateKind

# ---- canonical form --------------------------------------------------------------------------------------------------


def plan_dict(plan: PhysicalPlan) -> dict[str, Any]:
    """The physical plan as plain JSON values, with `hash`: SHA-256 of everything else in canonical JSON."""
    several = {edge.to_task for edge in plan.edges if edge.input}
    shown: dict[str, Any] = {
        "pipeline": plan.pipeline,
        "max_parallelism": plan.max_parallelism,
        "batch": {"max_rows": plan.batch_rows_max, "max_delay_ms": plan.batch_delay_ms},
        "checkpoint_interval_ms": plan.checkpoint.interval_ms,
        **_state(plan.state),
        "tasks": [
            {
                "name": task.name,
                "parallelism": task.parallelism,
                "nodes": [_task_node(node) for node in task.nodes],
                "chain": [{"source": e.source, "output": e.output, "target": e.target} for e in task.edges],
            }
            for task in plan.tasks
        ],
        "edges": [
            {
                "from_task": edge.from_task,
                "source": edge.source,
                "output": edge.output,
                "to_task": edge.to_task,
                "partitioning": str(edge.partitioning),
                "columns": list(edge.columns),
                "order_columns": edge.order_columns,
                # only where there are several: the hash of a plan whose nodes have one input stays the same
                **({"input": edge.input} if edge.to_task in several else {}),
            }
            for edge in plan.edges
        ],
    }
    body = json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**shown, "hash": hashlib.sha256(body.encode()).hexdigest()}


def _state(terms: StateTerms) -> dict[str, Any]:
    """The place of the state; nothing where the pipeline says nothing, so that its hash stays the same."""
    return {} if terms == UNSAID else {"state": _terms(terms)}


def _terms(terms: StateTerms) -> dict[str, Any]:
    return {"backend": terms.backend, "memory_bytes": terms.memory_bytes, "dir": terms.folder}


def _task_node(node: TaskNode) -> dict[str, Any]:
    match node:
        case SourceSpec():
            return {
                "node": node.node,
                "kind": "source",
                "connector": {node.connector: _config(node.config)},
                "format": _format(node.format),
                "schema": _columns(node.schema),
                "output": _columns(node.output),
                "time": None if node.time is None else {"kind": _time_kind(node.time), **_plain_fields(node.time)},
                "on_error": node.on_error.value,
                "order_columns": node.order_columns,
                **_key_format(node),
            }
        case StepSpec():
            return {
                "node": node.node,
                "kind": "step",
                "verb": node.verb,
                "config": _plain(node.config),
                "output": _columns(node.output),
            }
        case SinkSpec():
            return {
                "node": node.node,
                "kind": "sink",
                "connector": {node.connector: _config(node.config)},
                "format": _format(node.format),
                "schema": _columns(node.schema),
                "encoded": list(node.encoded.names),
                "update_key": None if node.update_key is None else list(node.update_key),
                "implicit": node.implicit,
                # written only if it is set: the hash of a plan without it stays the same
                **({} if node.on_error is OnError.FAIL else {"on_error": node.on_error.value}),
                **_key_format(node),
            }


def _config(config: Config, *, only_set: bool = False) -> dict[str, Any]:
    shown = config.model_dump(mode="json", by_alias=True, exclude_defaults=only_set)
    if only_set:
        # a block that is set shows all its written fields, including defaults: `create_topic: {partitions: 1}`
        written = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
        shown = {name: written.get(name, value) for name, value in shown.items()}
    return masked_config(config, shown)


def _format(spec: FormatSpec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    # written only if there are some: the hash of a plan without files stays the same
    files = {"files": {name: file_hash(content) for name, content in sorted(spec.files.items())}} if spec.files else {}
    return {spec.name: _config(spec.config), **files}


def _key_format(node: SourceSpec | SinkSpec) -> dict[str, Any]:
    """What encodes the key; nothing without it, so that the hash of such a plan stays the same."""
    if node.key_format is None:
        return {}
    return {"key_format": _format(node.key_format), "key_schema": _columns(node.key_schema)}


def _columns(schema: Schema) -> list[list[Any]]:
    """Pairs, because the order of columns matters."""
    return [[name, form] for name, form in schema_dict(schema).items()]


def _time_kind(time: RowTime | RecordTime) -> str:
    return "row" if isinstance(time, RowTime) else "record"


def _plain_fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain(value: Any) -> Any:
    """Operator configs hold plain data only: dataclasses, enums, schemas, tuples and scalars."""
    match value:
        case Tumbling() | Sliding() | Cumulate():
            return {"kind": type(value).__name__.lower(), **_plain_fields(value)}
        case Schema():
            return _columns(value)
        case Enum():
            return value.value
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True)
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
        case None | str() | int() | float():
            return value
        case _:
            assert is_dataclass(value), f"a plan holds {type(value).__name__}"
            return _plain_fields(value)


# ---- for people and --json -------------------------------------------------------------------------------------------


def explain_dict(logical: LogicalPlan, physical: PhysicalPlan) -> dict[str, Any]:
    """Both plans: `nodes` in flow order, and the physical plan as in `plan_dict`."""
    read = {each.reference for node in logical.nodes for each in node.inputs}
    return {
        "pipeline": logical.pipeline,
        "replayable": logical.replayable,
        "state": _terms(physical.state),
        "nodes": [_node_dict(node, read, physical.state) for node in logical.nodes],
        "physical": plan_dict(physical),
    }


def _node_dict(node: LogicalNode, read: set[tuple[str, str]], terms: StateTerms) -> dict[str, Any]:
    main = node.outputs.get(MAIN)
    shown: dict[str, Any] = {
        "name": node.name,
        "kind": _kind(node),
        "what": _what(node),
        "reads": [_reference(*each.reference) for each in node.inputs],
        "parallelism": node.parallelism,
        "columns": None if main is None else main.schema.json(),
        "emits": None if main is None else main.kind,
        "replayable": not node.not_replayable,
        "not_replayable": list(node.not_replayable),
        "side_outputs": {
            name: {"columns": stream.schema.json(), "emits": stream.kind, "read": (node.name, name) in read}
            for name, stream in node.outputs.items()
            if name != MAIN
        },
    }
    if isinstance(node.spec, SourceSpec):
        shown["time"] = time_text(node.spec.time)
    if isinstance(node.spec, StepSpec):
        shown["waits"] = node.spec.config.waits() or None
        shown["state"] = [
            {
                "name": each.name,
                "backend": terms.backend,
                "keys": [name for name, _ in each.keys],
                "row_per": list(each.per),
                "dropped": each.dropped or None,
                "grows": each.grows,
            }
            for each in _kept(node.spec)
        ]
    if isinstance(node.spec, SinkSpec):
        shown["implicit"] = node.spec.implicit
    return shown


def _kept(step: StepSpec) -> list[StateShape]:
    """The states with rows of the data, without those that hold the step's time."""
    return [each for each in step.config.states() if each.kind is StateKind.KEYED]


def _kind(node: LogicalNode) -> str:
    match node.spec:
        case SourceSpec():
            return "source"
        case StepSpec():
            return "step"
        case SinkSpec():
            return "sink"


def _reference(node: str, output: str) -> str:
    return node if output == MAIN else f"{node}.{output}"


def time_text(time: TimeSpec) -> str | None:
    """The origin of a source's event time: `scheduled, out of orderness 30m`."""
    if time is None:
        return None
    origin = time.expression if isinstance(time, RowTime) else "timestamp of the record"
    text = f"{origin}, out of orderness {duration_text(time.out_of_orderness_ms)}"
    return text if time.idle_after_ms is None else f"{text}, idle after {duration_text(time.idle_after_ms)}"


def _what(node: LogicalNode) -> str:
    match node.spec:
        case SourceSpec() | SinkSpec() as spec:
            form = "" if spec.format is None else f" as {spec.format.name}"
            settings = ", ".join(f"{key} {_short(value)}" for key, value in _config(spec.config, only_set=True).items())
            return f"{spec.connector}{form}" + (f": {settings}" if settings else "")
        case StepSpec():
            return f"{node.spec.verb} {node.spec.config.describe()}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def explain_lines(logical: LogicalPlan, physical: PhysicalPlan) -> Iterator[str]:
    """Both plans as text; only the first line of a section starts without a space."""
    subtasks = sum(task.parallelism for task in physical.tasks)
    yield (
        f"{logical.pipeline}: {_count(len(logical.nodes), 'node')} in {_count(len(physical.tasks), 'task')}, "
        f"{_count(subtasks, 'subtask')}; "
        f"{'replayable' if logical.replayable else 'not replayable'}"
    )
    if any(_kept(node.spec) for node in logical.nodes if isinstance(node.spec, StepSpec)):
        yield f"  state        {_place_text(physical.state)}"
    read = {each.reference for node in logical.nodes for each in node.inputs}
    for node in logical.nodes:
        yield ""
        yield from _node_lines(node, read, logical, physical)
    yield ""
    yield "tasks"
    for task in physical.tasks:
        chain = ", ".join(node.node for node in task.nodes)
        yield f"  {task.name} x {task.parallelism}: {chain}"
    if physical.edges:
        yield "edges"
    for edge in physical.edges:
        several = len(physical.inputs(edge.to_task)) > 1
        reader = f"input {edge.input} of {edge.to_task}" if several else edge.to_task
        yield f"  {_reference(edge.source, edge.output)} -> {reader}: {edge.partitioning}"


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _node_lines(
    node: LogicalNode, read: set[tuple[str, str]], logical: LogicalPlan, physical: PhysicalPlan
) -> Iterator[str]:
    implicit = isinstance(node.spec, SinkSpec) and node.spec.implicit
    yield f"{_kind(node)} {node.name}{' (dead letters)' if implicit else ''}"
    yield from _input_lines(node, logical, physical)
    yield f"  does         {_what(node)}"
    if isinstance(node.spec, SourceSpec):
        # the origin of event time is omitted where no node uses event time
        unasked = "the record's, which no node asks for" if node.outputs[MAIN].timed else "none"
        yield f"  event time   {time_text(node.spec.time) or unasked}"
    if MAIN in node.outputs:
        yield f"  emits        {_stream_text(node.outputs[MAIN])}"
    for name, stream in node.outputs.items():
        if name != MAIN:
            fate = "" if (node.name, name) in read else " (nobody reads it)"
            yield f"  {node.name + '.' + name:<12} {_stream_text(stream)}{fate}"
    if isinstance(node.spec, StepSpec):
        yield from _state_lines(node, node.spec, physical.state)
    yield f"  parallelism  {node.parallelism}"
    for reason in node.not_replayable:
        yield f"  not replayable: {reason}"


def _input_lines(node: LogicalNode, logical: LogicalPlan, physical: PhysicalPlan) -> Iterator[str]:
    """The node that it reads; of several ones each with its number, its kind and how its rows are spread."""
    if len(node.inputs) < 2:
        yield from (f"  reads        {_reference(*each.reference)}" for each in node.inputs)
        return
    for edge in physical.inputs(node.name):
        kind = logical.node(edge.source).outputs[edge.output].kind
        label = "" if edge.input else "inputs"
        yield f"  {label:<12} {edge.input} {_reference(edge.source, edge.output)}: {kind}, {edge.partitioning}"


def _place_text(terms: StateTerms) -> str:
    """Where the state of a slot lies: `disk: 64MiB of each slot in memory, more in local files`."""
    size = None if terms.memory_bytes is None else size_text(terms.memory_bytes)
    if terms.backend == "memory":
        return "memory, without a bound" if size is None else f"memory: {size} a slot; more fails the job"
    held = f"{size} a slot" if size else "a quarter of the memory, at least 256MiB a slot,"
    folder = "" if terms.folder is None else f" in {terms.folder}"
    return f"disk: {held} in memory, more in local files{folder}"


def _state_lines(node: LogicalNode, step: StepSpec, terms: StateTerms) -> Iterator[str]:
    """What its results wait for; each state with its place, its rows, and what drops them."""
    if waits := step.config.waits():
        yield f"  waits        {waits}"
    inputs = ", ".join(_reference(*each.reference) for each in node.inputs)
    for number, state in enumerate(_kept(step)):
        rows = f"1 row a {_and(state.per)}" if state.per else "1 row"
        grows = f"; grows with the {_and(f'{each}s' for each in state.per)} of {inputs}" if state.grows else ""
        label = "" if number else "state"
        yield f"  {label:<12} {state.name} ({terms.backend}): {rows}; dropped: {state.dropped or 'never'}{grows}"


def _and(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _stream_text(stream: Stream) -> str:
    return f"{stream.kind}: {', '.join(f'{field.name} {field.type_text}' for field in stream.schema)}"
