"""Plans the two ends of a pipeline: a source's columns, its time and its bad records; and the sinks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from headrace.connect import registry
from headrace.connect.metadata import BAD_SCHEMA, METADATA
from headrace.connect.sink import SinkConfig, SinkContext
from headrace.core.batch import HEADERS, O_MAJOR, O_MINOR, O_TEXT
from headrace.core.errors import UserError, did_you_mean
from headrace.core.types import Field, Primitive, Schema, Timestamp
from headrace.expr.compiler import compile_scalar
from headrace.operators.chain import MAIN
from headrace.operators.operator import BAD, REASON, OnError
from headrace.plan.checkpoint_terms import checkpoint_terms
from headrace.plan.contexts import sink_context
from headrace.plan.error_policy import policy_of
from headrace.plan.input_checks import partitioning_of, require_column, spread_reasons
from headrace.plan.nodes import LogicalNode, NodeInput, reference
from headrace.plan.partitioning import Partitioning
from headrace.plan.physical import (
    NO_COLUMNS,
    FormatSpec,
    RecordTime,
    RowTime,
    SinkSpec,
    SourceSpec,
    TaskNode,
    TimeSpec,
)
from headrace.plan.problems import Path, Problems, UnknownInputError
from headrace.plan.stream import Stream, bad_rows
from headrace.spec.fields import DeadLetter, FormatUse
from headrace.spec.pipeline import Pipeline, SinkNode, SourceNode
from headrace.spec.travelling_files import own_files


def plan_source(name: str, node: SourceNode, pipeline: Pipeline, problems: Problems) -> LogicalNode:
    """The logical node of a source. Raises UnknownInputError after recording its problems."""
    path = ("sources", name)
    metadata = tuple(node.config.metadata_columns.items())
    output = _output(path, node, metadata, problems)
    diverts = policy_of(node.on_error) is OnError.DIVERT
    bad = {BAD: Stream(BAD_SCHEMA, timed=False)} if diverts else {}
    format_spec = key_format = None
    time: TimeSpec | None = None
    reasons: tuple[str, ...] = ()
    try:
        with problems.every() as check:
            with check():
                format_spec = _format(path, node, pipeline, problems)
            with check():
                key_format = _key_format(path, node, pipeline, problems)
            with check():
                time, reasons = _time(path, node, output, problems)
    except UnknownInputError as error:
        # the schema names the columns, and `time:` says that rows have a time, even if another one is meant
        raise UnknownInputError({MAIN: Stream(output, timed=_declares_time(node))} | bad) from error
    spec = SourceSpec(
        node=name,
        connector=node.connector,
        config=node.config,
        format=format_spec,
        schema=node.columns,
        output=output,
        metadata=metadata,
        time=time,
        on_error=policy_of(node.on_error),
        order_columns=False,
        key_format=key_format,
        key_schema=node.key_schema or NO_COLUMNS,
        keeps_headers=isinstance(node.on_error, DeadLetter) and "headers" in node.config.metadata_fields,
    )
    return LogicalNode(
        name=name,
        spec=spec,
        inputs=(),
        outputs={MAIN: Stream(output, timed=time is not None)} | bad,
        parallelism=node.parallelism or pipeline.parallelism,
        not_replayable=reasons,
    )


def file_only(name: str, connector: str) -> tuple[str, str]:
    """Message and remedy for a file format on a connector of messages."""
    return f"{name} is a format of whole files, and {connector} handles messages", "use json, csv or raw"


def _refuse_form(path: Path, use: FormatUse, node: SourceNode | SinkNode, problems: Problems) -> None:
    """Refuses a format whose messages are not what the connector handles: whole files, lines of text, or bytes."""
    if use.config.file_only and not node.config.files:
        raise problems.refuse(path, *file_only(use.name, node.connector))
    if node.config.files and not use.config.text_lines:
        message = f"messages in {use.name} are bytes, and {node.connector} handles lines of text"
        raise problems.refuse(path, message, "use json, csv, raw or parquet")


def _output(
    path: tuple[str, ...], node: SourceNode, metadata: tuple[tuple[str, str], ...], problems: Problems
) -> Schema:
    names = {field.name for field in node.columns}
    for field in node.key_schema or ():
        if field.name in names:
            place = (*path, "key_schema", field.name)
            raise problems.refuse(place, f"column {field.name!r} is already in the schema", "give it another name")
        names.add(field.name)
    fields = list(node.decoded)
    for kind, column in metadata:
        if column in names:
            place = (*path, node.connector, "metadata", kind)
            raise problems.refuse(place, f"column {column!r} is already in the schema", "give it another name")
        names.add(column)
        fields.append(Field(column, METADATA[kind].type, METADATA[kind].nullable))
    return Schema(tuple(fields))


def _format(path: Path, node: SourceNode, pipeline: Pipeline, problems: Problems) -> FormatSpec | None:
    if node.format is None:
        return None
    _refuse_form((*path, "format"), node.format, node, problems)
    wrong = node.format.config.check_source(node.columns)
    for message in wrong[1:]:
        problems.add((*path, "schema"), message)
    if wrong:
        raise problems.refuse((*path, "schema"), wrong[0])
    return _with_files((*path, "format"), node.format, pipeline, problems)


def _key_format(path: Path, node: SourceNode, pipeline: Pipeline, problems: Problems) -> FormatSpec | None:
    use, columns = node.key_format, node.key_schema
    if use is None and columns is None:
        return None
    if use is None:
        raise problems.refuse((*path, "key_schema"), "key_schema needs key_format", "add `key_format: json` or raw")
    if columns is None:
        raise problems.refuse((*path, "key_format"), "key_format needs key_schema", "name the key's columns there")
    if "key" not in node.config.metadata_fields:
        raise problems.refuse((*path, "key_format"), f"records of {node.connector} have no keys", "remove it")
    _refuse_all((*path, "key_schema"), use.config.check_key(columns), problems)
    return _with_files((*path, "key_format"), use, pipeline, problems)


def _with_files(path: Path, use: FormatUse, pipeline: Pipeline, problems: Problems) -> FormatSpec:
    try:
        return FormatSpec(use.name, use.config, own_files(use.config, pipeline.files))
    except UserError as error:
        raise problems.refuse(path, error.message, error.remedy) from error


def _declares_time(node: SourceNode) -> bool:
    return node.time.column is not None or node.time.value is not None or type(node.config).record_time


def _time(
    path: tuple[str, ...], node: SourceNode, output: Schema, problems: Problems
) -> tuple[TimeSpec | None, tuple[str, ...]]:
    time = node.time
    if time.column is not None:
        return _column_time(path, node, output, problems), ()
    if time.value is not None:
        with problems.at((*path, "time", "value")):
            compiled = compile_scalar(time.value, output, has_time=False)
        if not isinstance(compiled.type, Timestamp):
            message = f"event time must be a timestamp, and this expression is {compiled.type}"
            raise problems.refuse((*path, "time", "value"), message, "cast it: cast(.. as timestamp)")
        reasons = (compiled.not_replayable,) if compiled.not_replayable else ()
        return RowTime(time.value, time.out_of_orderness_ms, time.idle_after_ms, time.max_drift_ms), reasons
    if type(node.config).record_time:
        return RecordTime(time.out_of_orderness_ms, time.idle_after_ms, time.max_drift_ms), ()
    return None, ()


def _column_time(path: tuple[str, ...], node: SourceNode, output: Schema, problems: Problems) -> TimeSpec:
    time, column = node.time, node.time.column
    assert column is not None
    field = output.get(column)
    if field is None:
        hint = did_you_mean(column, output.names)
        columns = f"columns: {', '.join(output.names)}"
        raise problems.refuse(
            (*path, "time", "column"), f"no column {column!r}", f"{hint} {columns}" if hint else columns
        )
    if not isinstance(field.type, Timestamp):
        raise problems.refuse(
            (*path, "time", "column"),
            f"event time must be a timestamp, and column {column!r} is {field.type}",
            f"declare `{column}: timestamp` in the schema, or use `value:` with an expression that makes one",
        )
    return RowTime(column, time.out_of_orderness_ms, time.idle_after_ms, time.max_drift_ms)


def plan_sink(name: str, node: SinkNode, stream: Stream, pipeline: Pipeline, problems: Problems) -> LogicalNode:
    """The logical node of a sink. Raises UnknownInputError after recording its problems."""
    path = ("sinks", name)
    connector_path = (*path, node.connector)
    format_spec = key_format = None
    partitioning: Partitioning | None = None
    with problems.every() as check:
        for column in node.config.referenced_columns:
            with check():
                require_column(stream.schema, column, connector_path, problems)
        with check():
            _check_kind(connector_path, node, stream, problems)
        with check():
            _check_on_error(path, node, problems)
        with check():
            format_spec = _sink_format(path, node, stream.schema, problems, pipeline)
        with check():
            key_format = _sink_key_format(path, node, stream.schema, problems, pipeline)
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
    policy = policy_of(node.on_error)
    spec = SinkSpec(
        name,
        node.connector,
        node.config,
        format_spec,
        stream.schema,
        stream.schema,
        stream.update_key,
        on_error=policy,
        key_format=key_format,
    )
    return LogicalNode(
        name=name,
        spec=spec,
        inputs=(NodeInput(*reference(node.from_), partitioning),),
        outputs={BAD: bad_rows(stream.schema)} if policy is OnError.DIVERT else {},
        parallelism=parallelism,
        not_replayable=(*spread_reasons(partitioning), *_refusal_reasons(node)),
        needs_time=node.config.uses_event_time,
    )


def _check_on_error(path: Path, node: SinkNode, problems: Problems) -> None:
    if node.on_error is not OnError.FAIL and node.config.refuses == "never":
        raise problems.refuse(
            (*path, "on_error"),
            f"this {node.connector} sink has no on_error: a row that it cannot write fails the job",
            "filter such rows out before the sink; on_error is for kafka sinks, and for sql sinks of PostgreSQL and "
            "SQLite",
        )


def _refusal_reasons(node: SinkNode) -> tuple[str, ...]:
    depends = node.config.refusals_depend_on
    if node.on_error is OnError.FAIL or depends is None:
        return ()
    return (f"on_error: which rows are left out depends on {depends}",)


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


def _sink_format(
    path: Path, node: SinkNode, schema: Schema, problems: Problems, pipeline: Pipeline
) -> FormatSpec | None:
    use = node.format
    if use is None:
        return None
    _refuse_form((*path, "format"), use, node, problems)
    _refuse_all((*path, "format"), use.config.check_sink(schema), problems)
    return _with_files((*path, "format"), use, pipeline, problems)


def _sink_key_format(
    path: Path, node: SinkNode, schema: Schema, problems: Problems, pipeline: Pipeline
) -> FormatSpec | None:
    use, columns = node.key_format, node.config.key_columns
    if use is None:
        return None
    if not node.config.encodes_keys:
        raise problems.refuse((*path, "key_format"), f"a {node.connector} sink has no record keys", "remove it")
    if columns is None:
        raise problems.refuse((*path, "key_format"), "key_format needs a key", "name its columns with `key:`")
    fields = [schema.get(name) for name in columns]
    key = Schema(tuple(field for field in fields if field is not None))  # a missing one is a problem of its own
    _refuse_all((*path, "key_format"), use.config.check_key(key), problems)
    return _with_files((*path, "key_format"), use, pipeline, problems)


def _refuse_all(path: Path, messages: Sequence[str], problems: Problems) -> None:
    for message in messages:
        problems.add(path, message)
    if messages:
        raise UnknownInputError


# ---- dead letters ----------------------------------------------------------------------------------------------------
# Where bad rows go: plans the sink `<node>.bad` of every node with `on_error: {dead_letter: TOPIC}`. Pure.
#
# A source's bad messages are stored whole, with key, headers, timestamp and position, so that they can be sent to their
# topic again as they were. The bad rows of steps and sinks are stored as JSON, with the position of the message that
# they come from; those of a sink have the sink's key, so that the rows of one key stay in order.


class _Terms(TypedDict):
    exactly_once: bool
    commit_within_ms: int | None


def dead_letter_sinks(
    pipeline: Pipeline, nodes: Mapping[str, LogicalNode], problems: Problems
) -> Iterator[LogicalNode]:
    """The implicit sink `<node>.bad` of every node with `on_error: {dead_letter: <topic>}`.

    They are exactly-once if any sink of the job is: then diverted rows are not repeated either.
    """
    exact = [sink.config for sink in pipeline.sinks.values() if sink.config.exactly_once]
    # the shortest one: all of them have been checked against the checkpoints
    commit_within_ms = min((each.commit_within_ms for each in exact if each.commit_within_ms is not None), default=None)
    groups = (("sources", pipeline.sources), ("steps", pipeline.steps), ("sinks", pipeline.sinks))
    for group, members in groups:
        for name, member in members.items():
            if isinstance(member.on_error, DeadLetter) and name in nodes:
                path = (group, name, "on_error")
                origin = _first_source(name, nodes)
                if origin is None:
                    continue
                terms: _Terms = {"exactly_once": bool(exact), "commit_within_ms": commit_within_ms}
                made = _beside(nodes[name], member.on_error.topic, terms) or origin.config.dead_letter_sink(
                    member.on_error.topic, **terms
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


def _beside(node: LogicalNode, topic: str, terms: _Terms) -> tuple[str, dict[str, Any]] | None:
    """The sink of a sink's dead letters on its own cluster."""
    return node.spec.config.dead_letter_sink(topic, **terms) if isinstance(node.spec, SinkSpec) else None


def _check_made(node: LogicalNode, pipeline: Pipeline) -> list[str]:
    assert isinstance(node.spec, SinkSpec)
    terms = checkpoint_terms(pipeline)
    return node.spec.config.check(sink_context(node.spec, pipeline.name, parallelism=node.parallelism, terms=terms))


def _first_source(name: str, nodes: Mapping[str, LogicalNode]) -> SourceSpec | None:
    node = nodes.get(name)
    while node is not None and not isinstance(node.spec, SourceSpec):
        node = nodes.get(node.inputs[0].source)
    return node.spec if node is not None and isinstance(node.spec, SourceSpec) else None


def _key_of(spec: TaskNode) -> dict[str, Any]:
    keys = spec.config.key_columns if isinstance(spec, SinkSpec) else None
    # a column `reason` is replaced by the reason
    return {"key": list(keys)} if keys and REASON not in keys else {}


def _dead_letter_node(
    name: str, node: LogicalNode, connector: str, sink: type[SinkConfig], fields: dict[str, Any]
) -> LogicalNode:
    schema = node.outputs[BAD].schema
    if isinstance(node.spec, SourceSpec):
        headers = {name: name for name in ("topic", "partition", "offset", "timestamp", REASON)}
        extra: dict[str, Any] = {"key": ["key"]}
        encoded, format_name = Schema((schema.field("value"),)), "raw"
        if node.spec.keeps_headers:
            schema = Schema((*schema, Field(HEADERS, METADATA["headers"].type)))
    else:
        headers = {"topic": O_TEXT, "partition": O_MAJOR, "offset": O_MINOR, "reason": REASON}
        extra = _key_of(node.spec)
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
        inputs=(NodeInput(name, BAD),),
        outputs={},
        parallelism=node.parallelism,
        needs_order=not isinstance(node.spec, SourceSpec),
    )
