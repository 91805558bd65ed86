"""Plans a source node: its columns, its time, its bad records. Pure."""

from __future__ import annotations

from headrace.connect.metadata import BAD_SCHEMA, METADATA
from headrace.core.errors import did_you_mean
from headrace.core.types import Field, Schema, Timestamp
from headrace.expr.compiler import compile_scalar
from headrace.operators.chain import MAIN
from headrace.operators.operator import BAD, OnError
from headrace.plan.error_policy import policy_of
from headrace.plan.nodes import LogicalNode
from headrace.plan.physical import FormatSpec, RecordTime, RowTime, SourceSpec, TimeSpec
from headrace.plan.problems import Problems, UnknownInputError
from headrace.plan.stream import Stream
from headrace.spec.fields import DeadLetter
from headrace.spec.pipeline import Pipeline, SourceNode


def plan_source(name: str, node: SourceNode, pipeline: Pipeline, problems: Problems) -> LogicalNode:
    """The logical node of a source. Raises UnknownInputError after recording its problems."""
    path = ("sources", name)
    metadata = tuple(node.config.metadata_columns.items())
    output = _output(path, node, metadata, problems)
    diverts = policy_of(node.on_error) is OnError.DIVERT
    bad = {BAD: Stream(BAD_SCHEMA, timed=False)} if diverts else {}
    format_spec: FormatSpec | None = None
    time: TimeSpec | None = None
    reasons: tuple[str, ...] = ()
    try:
        with problems.every() as check:
            with check():
                format_spec = _format(path, node, problems)
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


def _output(
    path: tuple[str, ...], node: SourceNode, metadata: tuple[tuple[str, str], ...], problems: Problems
) -> Schema:
    fields = list(node.columns)
    names = {field.name for field in fields}
    for kind, column in metadata:
        if column in names:
            place = (*path, node.connector, "metadata", kind)
            raise problems.refuse(place, f"column {column!r} is already in the schema", "give it another name")
        names.add(column)
        fields.append(Field(column, METADATA[kind].type, METADATA[kind].nullable))
    return Schema(tuple(fields))


def _format(path: tuple[str, ...], node: SourceNode, problems: Problems) -> FormatSpec | None:
    if node.format is None:
        return None
    if node.format.config.file_only and not node.config.files:
        raise problems.refuse((*path, "format"), *file_only(node.format.name, node.connector))
    wrong = node.format.config.check_source(node.columns)
    for message in wrong[1:]:
        problems.add((*path, "schema"), message)
    if wrong:
        raise problems.refuse((*path, "schema"), wrong[0])
    return FormatSpec(node.format.name, node.format.config)


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
