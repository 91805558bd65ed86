"""Plans sink nodes: those of the user, and those implied by dead letters. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.connect import registry
from headrace.connect.sink import SinkConfig, SinkContext
from headrace.core.batch import O_MAJOR, O_MINOR, O_TEXT
from headrace.core.types import Field, Primitive, Schema
from headrace.operators.operator import BAD, REASON
from headrace.plan.checkpoint_terms import checkpoint_terms
from headrace.plan.contexts import sink_context
from headrace.plan.nodes import LogicalNode, reference
from headrace.plan.partitioning import Partitioning
from headrace.plan.physical import FormatSpec, SinkSpec, SourceSpec
from headrace.plan.problems import Path, Problems, UnknownInputError
from headrace.plan.sources import file_only
from headrace.plan.steps import partitioning_of, require_column, spread_reasons
from headrace.plan.stream import Stream
from headrace.spec.fields import DeadLetter
from headrace.spec.pipeline import Pipeline, SinkNode


def plan_sink(name: str, node: SinkNode, stream: Stream, pipeline: Pipeline, problems: Problems) -> LogicalNode:
    """The logical node of a sink. Raises UnknownInputError after recording its problems."""
    path = ("sinks", name)
    connector_path = (*path, node.connector)
    format_spec: FormatSpec | None = None
    partitioning: Partitioning | None = None
    with problems.every() as check:
        for column in node.config.referenced_columns:
            with check():
                require_column(stream.schema, column, connector_path, problems)
        with check():
            _check_kind(connector_path, node, stream, problems)
        with check():
            format_spec = _format(path, node, stream.schema, problems)
        with check():
            partitioning = partitioning_of(node.partition, stream, path, problems)
    parallelism = node.parallelism or pipeline.parallelism
    context = SinkContext(
        job=pipeline.name,
        node=name,
        subtask=0,
        parallelism=parallelism,
        schema=stream.schema,
        update_key=stream.update_key,
        format=None if format_spec is None else format_spec.name,
        checkpoint=checkpoint_terms(pipeline),
    )
    _refuse_all(connector_path, node.config.check(context), problems)
    spec = SinkSpec(name, node.connector, node.config, format_spec, stream.schema, stream.schema, stream.update_key)
    return LogicalNode(
        name=name,
        spec=spec,
        inputs=(reference(node.from_),),
        outputs={},
        parallelism=parallelism,
        partitioning=partitioning,
        not_replayable=spread_reasons(partitioning),
        needs_time=node.config.uses_event_time,
    )


def _check_kind(path: Path, node: SinkNode, stream: Stream, problems: Problems) -> None:
    if stream.update_key is None:
        return
    key = ", ".join(stream.update_key)
    if not node.config.accepts_updates:
        raise problems.refuse(
            path,
            f"the rows of {node.from_} update each other by ({key}), and this sink appends them",
            _update_remedy(node, key),
        )
    if stream.deletes and not node.config.accepts_deletes:
        raise problems.refuse(
            path,
            f"the rows of {node.from_} may be deletes, and this sink cannot write one",
            f"set `mode: upsert` with `key: [{key}]`",
        )
    # a sink that applies deletes by key keeps one row per key
    own = node.config.key_columns if node.config.accepts_deletes else None
    if own is not None and set(own) != set(stream.update_key):
        raise problems.refuse(
            path,
            f"the rows of {node.from_} update each other by ({key}), and this sink keeps one row for each "
            f"({', '.join(own)})",
            f"set `key: [{key}]`, in any order",
        )


def _update_remedy(node: SinkNode, key: str) -> str:
    if "mode" in type(node.config).model_fields:
        return f"set `mode: upsert` with `key: [{key}]`, or `updates: as_rows` to write every version of a row"
    return (
        f"{node.connector} can only append: give the rows a window without allowed_lateness, which makes them final, "
        "or write them to a kafka or sql sink with `mode: upsert`"
    )


def _format(path: Path, node: SinkNode, schema: Schema, problems: Problems) -> FormatSpec | None:
    use = node.format
    if use is None:
        return None
    if use.config.file_only and not node.config.files:
        raise problems.refuse((*path, "format"), *file_only(use.name, node.connector))
    _refuse_all((*path, "format"), use.config.check_sink(schema), problems)
    return FormatSpec(use.name, use.config)


def _refuse_all(path: Path, messages: Sequence[str], problems: Problems) -> None:
    for message in messages:
        problems.add(path, message)
    if messages:
        raise UnknownInputError


def dead_letter_sinks(
    pipeline: Pipeline, nodes: Mapping[str, LogicalNode], problems: Problems
) -> Iterator[LogicalNode]:
    """The implicit sink `<node>.bad` of every node with `on_error: {dead_letter: <topic>}`.

    They are exactly-once if any sink of the job is: then diverted rows are not repeated either.
    """
    exact = [sink.config for sink in pipeline.sinks.values() if sink.config.exactly_once]
    # the shortest one: all of them have been checked against the checkpoints
    commit_within_ms = min((each.commit_within_ms for each in exact if each.commit_within_ms is not None), default=None)
    for group, members in (("sources", pipeline.sources), ("steps", pipeline.steps)):
        for name, member in members.items():
            if isinstance(member.on_error, DeadLetter) and name in nodes:
                path = (group, name, "on_error")
                origin = _first_source(name, nodes)
                if origin is None:
                    continue
                made = origin.config.dead_letter_sink(
                    member.on_error.topic, exactly_once=bool(exact), commit_within_ms=commit_within_ms
                )
                remedy = f"use `divert`, and a sink that reads from {name}.bad"
                if made is None:
                    text = f"dead letters go to the source's brokers, and a {origin.connector} source has none"
                    problems.add(path, text, remedy)
                    continue
                connector, fields = made
                sink = registry.connector(connector).sink
                if sink is None:
                    # a mistake of the package that provides the source's connector
                    text = f"the {origin.connector} source sends dead letters to {connector}, which has no sink"
                    problems.add(path, text, remedy)
                    continue
                node = _dead_letter_node(name, nodes[name], connector, sink, fields)
                for message in _check_made(node, pipeline):
                    problems.add(path, message)
                yield node


def _check_made(node: LogicalNode, pipeline: Pipeline) -> list[str]:
    assert isinstance(node.spec, SinkSpec)
    terms = checkpoint_terms(pipeline)
    return node.spec.config.check(sink_context(node.spec, pipeline.name, parallelism=node.parallelism, terms=terms))


def _first_source(name: str, nodes: Mapping[str, LogicalNode]) -> SourceSpec | None:
    node = nodes.get(name)
    while node is not None and not isinstance(node.spec, SourceSpec):
        node = nodes.get(node.inputs[0][0])
    return node.spec if node is not None and isinstance(node.spec, SourceSpec) else None


def _dead_letter_node(
    name: str, node: LogicalNode, connector: str, sink: type[SinkConfig], fields: dict[str, Any]
) -> LogicalNode:
    schema = node.outputs[BAD].schema
    if isinstance(node.spec, SourceSpec):
        headers = {"topic": "topic", "partition": "partition", "offset": "offset", "reason": REASON}
        extra: dict[str, Any] = {"key": ["key"]}
        encoded, format_name = Schema((schema.field("value"),)), "raw"
    else:
        headers = {"topic": O_TEXT, "partition": O_MAJOR, "offset": O_MINOR, "reason": REASON}
        extra = {}
        encoded, format_name = Schema(tuple(field for field in schema if field.name != REASON)), "json"
        # a writer receives only its schema's columns, and the headers need the row's source position
        place = (Field(O_TEXT, Primitive.STRING), Field(O_MAJOR, Primitive.INT64), Field(O_MINOR, Primitive.INT64))
        schema = Schema((*schema, *place))
    config = sink.model_validate({**fields, **extra, "headers": headers})
    form = registry.format_named(format_name).config()
    spec = SinkSpec(
        f"{name}.bad", connector, config, FormatSpec(format_name, form), schema, encoded, None, implicit=True
    )
    return LogicalNode(
        name=spec.node,
        spec=spec,
        inputs=((name, BAD),),
        outputs={},
        parallelism=node.parallelism,
        needs_order=not isinstance(node.spec, SourceSpec),
    )
