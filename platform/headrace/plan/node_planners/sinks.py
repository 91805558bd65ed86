"""Plans the sinks of a pipeline file. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.sink import SinkContext
from headrace.core.types import Schema
from headrace.operators.operator import BAD, OnError
from headrace.plan.checkpoint_terms import checkpoint_terms
from headrace.plan.error_policy import policy_of
from headrace.plan.input_checks import partitioning_of, require_column, spread_reasons
from headrace.plan.node_planners.sources import file_only
from headrace.plan.nodes import LogicalNode, NodeInput, reference
from headrace.plan.partitioning import Partitioning
from headrace.plan.physical import FormatSpec, SinkSpec
from headrace.plan.problems import Path, Problems, UnknownInputError
from headrace.plan.stream import Stream, bad_rows
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
            _check_on_error(path, node, problems)
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
