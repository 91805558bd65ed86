"""Plans a step node: the effect of its verb on columns, time and the kind of the stream. Pure.

Every verb accepts appended rows. Updating rows (they replace earlier ones by key) pass filters, and selections, drops
and renames that keep the key. Every other verb rejects them, because it would process a row and its replacement as two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import assert_never

from headrace.core.errors import did_you_mean
from headrace.core.types import Field, ListOf, Primitive, Schema, Struct
from headrace.expr.compiled import CompiledScalar
from headrace.expr.compiler import compile_aggregates, compile_predicate, compile_scalar
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.chain import MAIN
from headrace.operators.explode import ExplodeConfig
from headrace.operators.filter import FilterConfig
from headrace.operators.map import MapConfig
from headrace.operators.operator import BAD, LATE, REASON, OnError
from headrace.operators.project import ProjectConfig
from headrace.operators.rename import DropConfig, RenameConfig
from headrace.operators.union import UnionConfig
from headrace.operators.window.definitions import Cumulate, Sliding, Tumbling, Window
from headrace.plan.error_policy import policy_of
from headrace.plan.nodes import LogicalNode, reference
from headrace.plan.partitioning import Broadcast, Forward, Global, Hash, Partitioning, Rebalance, Rescale
from headrace.plan.physical import StepSpec
from headrace.plan.problems import Path, Problems, UnknownInputError
from headrace.plan.stream import Stream
from headrace.spec import verbs
from headrace.spec import window as windows
from headrace.spec.fields import HashBy, Partition, Route
from headrace.spec.pipeline import Pipeline, StepNode
from headrace.spec.verbs import quoted


def plan_step(
    name: str, node: StepNode, inputs: Sequence[Stream], pipeline: Pipeline, problems: Problems
) -> LogicalNode:
    """The logical node of a step. Raises UnknownInputError after recording its problems."""
    planner = _StepPlanner(name, node, inputs, pipeline, problems)
    return planner.plan()


def partitioning_of(partition: Partition | None, stream: Stream, path: Path, problems: Problems) -> Partitioning | None:
    """The partitioning that a node requests, checked against its input."""
    match partition:
        case None:
            return None
        case HashBy(columns=columns):
            with problems.every() as check:
                for column in columns:
                    with check():
                        require_key(stream.schema, column, (*path, "partition"), problems)
            chosen: Partitioning = Hash(tuple(columns))
        case Route():
            chosen = _ROUTES[partition]
        case _:
            assert_never(partition)
    if stream.update_key is not None and not isinstance(chosen, Forward | Global):
        allowed = Hash(stream.owner_keys)
        if chosen != allowed:
            raise problems.refuse(
                (*path, "partition"),
                f"rows that update each other must stay in order by key, and {chosen} would part them",
                "leave `partition` out",
            )
    return chosen


def spread_reasons(partitioning: Partitioning | None) -> tuple[str, ...]:
    """Reasons why, with this partitioning, a node's result does not depend on the log alone."""
    return (BROADCAST_REASON,) if isinstance(partitioning, Broadcast) else ()


BROADCAST_REASON = "partition: broadcast gives every subtask every row: the result depends on the parallelism"

_ROUTES: dict[Route, Partitioning] = {
    Route.FORWARD: Forward(),
    Route.REBALANCE: Rebalance(),
    Route.RESCALE: Rescale(),
    Route.BROADCAST: Broadcast(),
    Route.GLOBAL: Global(),
}


def require_column(schema: Schema, column: str, path: Path, problems: Problems) -> None:
    """Rejects an unknown column, with the nearest known one."""
    if column not in schema:
        hint = did_you_mean(column, schema.names)
        columns = f"columns: {', '.join(schema.names)}"
        raise problems.refuse(path, f"no column {column!r}", f"{hint} {columns}" if hint else columns)


def require_key(schema: Schema, column: str, path: Path, problems: Problems) -> None:
    """Rejects an unknown column, and one whose values have no key group."""
    require_column(schema, column, path, problems)
    kind = schema.field(column).type
    if isinstance(kind, ListOf | Struct):
        raise problems.refuse(path, f"column {column!r} is {kind}: lists and structs cannot be keys")


def bad_schema(schema: Schema) -> Schema:
    """Columns of a step's side output `bad`: those of its input, and the reason."""
    kept = tuple(field for field in schema if field.name != REASON)
    return Schema((*kept, Field(REASON, Primitive.STRING, nullable=False)))


class _StepPlanner:
    def __init__(
        self, name: str, node: StepNode, inputs: Sequence[Stream], pipeline: Pipeline, problems: Problems
    ) -> None:
        self._name = name
        self._node = node
        self._inputs = inputs
        self._stream = inputs[0]
        self._pipeline = pipeline
        self._problems = problems
        self._path: Path = ("steps", name)
        self._on_error = policy_of(node.on_error)
        self._reasons: list[str] = []
        self._fallible = False
        self._uses_time = False

    def plan(self) -> LogicalNode:
        verb = self._node.verb
        match verb:
            case verbs.Filter():
                return self._filter(verb)
            case verbs.Select():
                return self._project(verb.columns, keep=False)
            case verbs.WithColumns():
                return self._project(verb.columns, keep=True)
            case verbs.Drop():
                return self._drop(verb)
            case verbs.Rename():
                return self._rename(verb)
            case verbs.Explode():
                return self._explode(verb)
            case verbs.Union():
                return self._union(verb)
            case verbs.Map():
                return self._map(verb)
            case verbs.Aggregate():
                return self._aggregate(verb)
            case _:
                assert_never(verb)

    # ---- row by row ----------------------------------------------------------------------------------------------

    def _filter(self, verb: verbs.Filter) -> LogicalNode:
        updating = self._stream.update_key is not None
        try:
            with self._problems.at((*self._path, "filter")):
                self._note(compile_predicate(verb.predicate, self._stream.schema, has_time=self._stream.timed))
        except UnknownInputError as error:
            # a filter gives the columns that it reads, whatever its predicate is
            raise UnknownInputError(self._outputs(self._stream.schema, deletes=updating)) from error
        config = FilterConfig(
            node=self._name,
            predicate=verb.predicate,
            input=self._stream.schema,
            has_time=self._stream.timed,
            update_key=self._stream.update_key,
            on_error=self._on_error,
        )
        return self._made("filter", config, self._stream.schema, deletes=updating)

    def _project(self, columns: Sequence[tuple[str, str]], *, keep: bool) -> LogicalNode:
        verb = "with_columns" if keep else "select"
        listed = not keep and all(text == quoted(name) for name, text in columns)
        compiled: dict[str, CompiledScalar] = {}
        with self._problems.every() as check:
            for index, (name, text) in enumerate(columns):
                with check(), self._problems.at((*self._path, verb, str(index) if listed else name)):
                    compiled[name] = compile_scalar(text, self._stream.schema, has_time=self._stream.timed)
                    self._note(compiled[name])
        self._keeps_key(verb, compiled, keep=keep)
        config = ProjectConfig(
            node=self._name,
            columns=tuple((name, None if text == quoted(name) else text) for name, text in columns),
            input=self._stream.schema,
            keep_input=keep,
            on_error=self._on_error,
            update_key=self._stream.update_key,
            has_time=self._stream.timed,
        )
        skips = self._stream.update_key is not None and self._fallible and self._on_error is not OnError.FAIL
        return self._made(verb, config, config.output(), deletes=skips)

    def _keeps_key(self, verb: str, columns: Mapping[str, CompiledScalar], *, keep: bool) -> None:
        for key in self._stream.update_key or ():
            made = columns.get(key)
            same = made is not None and made.text.strip() in (key, quoted(key))
            if not (same or (keep and made is None)):
                raise self._problems.refuse(
                    (*self._path, verb),
                    f"the rows of {self._input_name} update each other by ({self._key_text}), "
                    f"and this step does not keep {key!r}",
                    f"keep the column {key!r} as it is",
                )

    def _drop(self, verb: verbs.Drop) -> LogicalNode:
        path = (*self._path, "drop")
        with self._problems.every() as check:
            for index, column in enumerate(verb.columns):
                with check():
                    self._check_dropped(column, (*path, str(index)))
        config = DropConfig(node=self._name, columns=tuple(verb.columns), input=self._stream.schema)
        output = config.output()
        if not len(output):
            raise self._problems.refuse(path, "no column would be left", "keep at least one")
        return self._made("drop", config, output)

    def _check_dropped(self, column: str, path: Path) -> None:
        if column in (self._stream.update_key or ()):
            raise self._problems.refuse(
                path, f"the rows of {self._input_name} update each other by ({self._key_text}): {column!r} must stay"
            )
        require_column(self._stream.schema, column, path, self._problems)

    def _rename(self, verb: verbs.Rename) -> LogicalNode:
        path = (*self._path, "rename")
        with self._problems.every() as check:
            for old, _ in verb.columns:
                with check():
                    require_column(self._stream.schema, old, (*path, old), self._problems)
        config = RenameConfig(node=self._name, names=tuple(verb.columns), input=self._stream.schema)
        with self._problems.at(path):
            output = config.output()
        return self._made("rename", config, output, renamed=dict(verb.columns))

    def _explode(self, verb: verbs.Explode) -> LogicalNode:
        self._append_only("explode")
        config = ExplodeConfig(node=self._name, column=verb.column, input=self._stream.schema)
        with self._problems.at((*self._path, "explode")):
            output = config.output()
        return self._made("explode", config, output)

    def _union(self, verb: verbs.Union) -> LogicalNode:
        first = self._inputs[0]
        with self._problems.every() as check:
            for index, (name, stream) in enumerate(zip(verb.inputs, self._inputs, strict=True)):
                path = (*self._path, "union", str(index))
                with check():
                    if stream.update_key is not None:
                        message = f"the rows of {name} update each other, and a union would mix them"
                        raise self._problems.refuse(path, message)
                    self._same_columns(path, verb.inputs[0], first.schema, name, stream.schema)
        timed = {stream.timed for stream in self._inputs}
        if len(timed) > 1:
            untimed = next(name for name, stream in zip(verb.inputs, self._inputs, strict=True) if not stream.timed)
            raise self._problems.refuse(
                (*self._path, "union"),
                f"the rows of {untimed} have no event time, and those of others have",
                "give its source a `time:`",
            )
        config = UnionConfig(node=self._name, inputs=verb.inputs, input=first.schema)
        return self._made("union", config, _nullable_union([stream.schema for stream in self._inputs]))

    def _same_columns(self, path: Path, first: str, expected: Schema, name: str, schema: Schema) -> None:
        for field in expected:
            other = schema.get(field.name)
            if other is None:
                raise self._problems.refuse(path, f"{name} has no column {field.name!r}, and {first} has")
            if other.type != field.type:
                raise self._problems.refuse(
                    path, f"column {field.name!r} is {other.type} in {name} and {field.type} in {first}"
                )
        for field in schema:
            if field.name not in expected:
                raise self._problems.refuse(path, f"{first} has no column {field.name!r}, and {name} has")

    def _map(self, verb: verbs.Map) -> LogicalNode:
        self._append_only("map")
        self._fallible = True
        config = MapConfig(
            node=self._name,
            function=verb.function,
            schema=verb.columns,
            input=self._stream.schema,
            on_error=self._on_error,
        )
        return self._made("map", config, verb.columns)

    # ---- aggregates ----------------------------------------------------------------------------------------------

    def _aggregate(self, verb: verbs.Aggregate) -> LogicalNode:
        self._append_only("aggregate")
        schema = self._stream.schema
        window = None if verb.window is None else _window(verb.window)
        ordered = False
        with self._problems.every() as check:
            for index, key in enumerate(verb.key_by):
                with check():
                    require_key(schema, key, (*self._path, "key_by", str(index)), self._problems)
            with check():
                self._check_window(verb, window)
            with check():
                self._check_placement(verb)
            for name, text in verb.aggregate:
                with check():
                    ordered = self._check_aggregate(verb, name, text) or ordered
        config = AggregateConfig(
            node=self._name,
            keys=tuple(verb.key_by),
            window=window,
            aggregates=tuple(verb.aggregate),
            input=schema,
            allowed_lateness_ms=verb.allowed_lateness_ms,
            lateness=verb.lateness,
            order=verb.order,
            on_error=self._on_error,
        )
        with self._problems.at(self._path):
            output = config.output()
        if verb.lateness == "operator":
            self._reasons.append("lateness: operator judges rows by when they arrive")
        if verb.order == "arrival" and ordered:
            self._reasons.append("order: arrival takes rows in the order in which they arrive")
        return self._aggregate_node(verb, config, output, needs_order=ordered and verb.order == "event")

    def _check_aggregate(self, verb: verbs.Aggregate, name: str, text: str) -> bool:
        """Whether the aggregate depends on the order of rows."""
        made = {*verb.key_by, "window_start", "window_end"} if verb.window else set(verb.key_by)
        path = (*self._path, "aggregate", name)
        if name in made:
            raise self._problems.refuse(path, f"there would be two columns {name!r}", "give it another name")
        with self._problems.at(path):
            (compiled,) = compile_aggregates(
                {name: text}, self._stream.schema, verb.key_by, has_time=self._stream.timed
            )
        self._fallible = self._fallible or compiled.fails is not None
        for call in compiled.calls:
            for scalar in (*call.arguments, call.where):
                if scalar is not None:
                    self._note(scalar)
        return any(call.function.order_sensitive for call in compiled.calls)

    def _check_placement(self, verb: verbs.Aggregate) -> None:
        """The keys alone decide how the rows of an aggregate are spread."""
        if not verb.key_by and (self._node.parallelism or 1) > 1:
            raise self._problems.refuse(
                (*self._path, "parallelism"), "without key_by there is one group: parallelism is 1", "leave it out"
            )
        if self._node.partition is not None:
            raise self._problems.refuse((*self._path, "partition"), "key_by decides how rows are spread here")

    def _check_window(self, verb: verbs.Aggregate, window: Window | None) -> None:
        if window is None:
            if verb.allowed_lateness_ms:
                raise self._problems.refuse(
                    (*self._path, "allowed_lateness"), "a running aggregate drops nothing, so nothing is late"
                )
            return
        if not self._stream.timed:
            raise self._problems.refuse(
                (*self._path, "window"),
                f"windows need event time, and the rows of {self._input_name} have none",
                "give its source a `time:` with the column that holds it",
            )
        for message in window.check():
            raise self._problems.refuse((*self._path, "window"), message)

    def _aggregate_node(
        self, verb: verbs.Aggregate, config: AggregateConfig, output: Schema, *, needs_order: bool
    ) -> LogicalNode:
        keys = tuple(verb.key_by)
        windowed = verb.window is not None
        update_key = None
        if not windowed or verb.allowed_lateness_ms:
            update_key = (*keys, "window_start", "window_end") if windowed else keys
        outputs = {MAIN: Stream(output, self._stream.timed, update_key, keys)}
        if windowed:
            outputs[LATE] = Stream(self._stream.schema, self._stream.timed)
        outputs |= self._bad()
        parallelism = self._node.parallelism or (self._pipeline.parallelism if keys else 1)
        return self._node_of(
            "aggregate",
            config,
            outputs,
            parallelism,
            partitioning=Hash(keys) if keys else Global(),
            needs_order=needs_order,
            needs_time=windowed or needs_order,
        )

    # ---- what all share ------------------------------------------------------------------------------------------

    @property
    def _input_name(self) -> str:
        return self._node.inputs[0]

    @property
    def _key_text(self) -> str:
        return ", ".join(self._stream.update_key or ())

    def _append_only(self, verb: str) -> None:
        if self._stream.update_key is not None:
            raise self._problems.refuse(
                (*self._path, verb),
                f"the rows of {self._input_name} update each other by ({self._key_text}), "
                f"and {verb} would take a row and its replacement for two",
                "read updating rows with filter, select, with_columns, drop, rename, or a sink in upsert mode",
            )

    def _note(self, compiled: CompiledScalar) -> None:
        self._fallible = self._fallible or compiled.fails is not None
        self._uses_time = self._uses_time or compiled.uses_time
        if compiled.not_replayable is not None:
            self._reasons.append(compiled.not_replayable)

    def _outputs(self, schema: Schema, *, deletes: bool, renamed: Mapping[str, str] | None = None) -> dict[str, Stream]:
        stream = self._stream
        new = renamed or {}
        key = None if stream.update_key is None else tuple(new.get(name, name) for name in stream.update_key)
        owners = tuple(new.get(name, name) for name in stream.owner_keys)
        return {MAIN: Stream(schema, stream.timed, key, owners, deletes=stream.deletes or deletes)} | self._bad()

    def _bad(self) -> dict[str, Stream]:
        diverts = self._on_error is OnError.DIVERT
        return {BAD: Stream(bad_schema(self._stream.schema), timed=False)} if diverts else {}

    def _made(
        self,
        verb: str,
        config: FilterConfig | ProjectConfig | DropConfig | RenameConfig | ExplodeConfig | UnionConfig | MapConfig,
        schema: Schema,
        *,
        deletes: bool = False,
        renamed: Mapping[str, str] | None = None,
    ) -> LogicalNode:
        outputs = self._outputs(schema, deletes=deletes, renamed=renamed)
        partitioning = None
        with suppress(UnknownInputError):  # a wrong partition leaves the columns as they are
            partitioning = partitioning_of(self._node.partition, self._stream, self._path, self._problems)
        parallelism = self._node.parallelism or self._pipeline.parallelism
        return self._node_of(verb, config, outputs, parallelism, partitioning=partitioning)

    def _node_of(
        self,
        verb: str,
        config: object,
        outputs: dict[str, Stream],
        parallelism: int,
        *,
        partitioning: Partitioning | None,
        needs_order: bool = False,
        needs_time: bool = False,
    ) -> LogicalNode:
        return LogicalNode(
            name=self._name,
            spec=StepSpec(self._name, verb, config, outputs[MAIN].schema),  # type: ignore[arg-type]
            inputs=tuple(reference(text) for text in self._node.inputs),
            outputs=outputs,
            parallelism=parallelism,
            partitioning=partitioning,
            not_replayable=tuple(dict.fromkeys((*self._reasons, *spread_reasons(partitioning)))),
            needs_order=needs_order or self._fallible,
            needs_time=needs_time or self._uses_time,
        )


def _nullable_union(schemas: Sequence[Schema]) -> Schema:
    """The first schema's columns; nullable if any input's column is."""
    first, *others = schemas
    return Schema(
        tuple(
            replace(field, nullable=field.nullable or any(other.field(field.name).nullable for other in others))
            for field in first
        )
    )


def _window(window: windows.Window) -> Window:
    match window:
        case windows.Tumbling():
            return Tumbling(window.size_ms, window.offset_ms, window.timezone)
        case windows.Sliding():
            return Sliding(window.size_ms, window.every_ms, window.offset_ms, window.timezone)
        case windows.Cumulate():
            return Cumulate(window.size_ms, window.every_ms, window.offset_ms, window.timezone)
        case _:
            assert_never(window)
