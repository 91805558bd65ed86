"""The pipeline builder: a Pipeline collects nodes in their file form, a Stream is a handle on a node's rows.

The same reader as for YAML files makes the spec model, so there is one set of rules. The builder itself only refuses
what the file form cannot express (duplicate names, streams of another pipeline).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from headrace.api.expression import Expression
from headrace.api.literal import Value
from headrace.api.plain import MapFunction, Plain, expression_text, function_path, plain, row_text, yaml_text
from headrace.api.running import RunResult, explain_model, run_model
from headrace.core.errors import UserError
from headrace.core.ids import split_output

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import SparkSession

    from headrace.api.spark.replay_result import ReplayResult
    from headrace.api.spark.replaying import Bound, ReplaySettings
    from headrace.core.types import Schema
    from headrace.local.engine.job import Progress
    from headrace.local.inspection.preview import Preview
    from headrace.spec.pipeline import Pipeline as PipelineModel


Columns = Mapping[str, Expression | Value]
"""Column name to expression. Text is SQL, any other plain value a literal."""
Setting = Mapping[str, object] | None


class StepOptions(TypedDict, total=False):
    """The options of any step; the keys of a step in a file."""

    on_error: str | Mapping[str, str]
    parallelism: int
    partition: str | Mapping[str, Sequence[str]]


class AggregateOptions(StepOptions, total=False):
    """The options of an aggregate except keys, window and columns, with their names in a file."""

    allowed_lateness: object
    lateness: str
    order: str


class Pipeline:
    """A pipeline under construction. `source`, and the streams that it returns, add nodes.

    The settings are those of a file, as plain data: `checkpoint={"interval": "30s"}`. `build` checks them.
    """

    def __init__(
        self,
        name: str,
        *,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        batch: Setting = None,
        checkpoint: Setting = None,
        state: Setting = None,
        restart: Setting = None,
        connections: Setting = None,
    ) -> None:
        self.name = name
        settings = {
            "parallelism": parallelism,
            "max_parallelism": max_parallelism,
            "batch": batch,
            "checkpoint": checkpoint,
            "state": state,
            "restart": restart,
            "connections": connections,
        }
        self._settings = {key: plain(value, key) for key, value in settings.items() if value is not None}
        self._nodes: dict[str, dict[str, Plain]] = {"sources": {}, "steps": {}, "sinks": {}}
        self._tests: list[Plain] = []
        self._previews = Previews()

    def __repr__(self) -> str:
        nodes = ", ".join(f"{len(nodes)} {group}" for group, nodes in self._nodes.items())
        return f"<Pipeline {self.name}: {nodes}>"

    def source(
        self,
        name: str,
        *,
        schema: Mapping[str, object],
        format: str | Mapping[str, object] | None = None,  # noqa: A002 - the word of the file
        key_format: str | Mapping[str, object] | None = None,
        key_schema: Mapping[str, object] | None = None,
        time: Mapping[str, object] | None = None,
        on_error: str | Mapping[str, str] | None = None,
        parallelism: int | None = None,
        **connector: Mapping[str, object],
    ) -> Stream:
        """Adds a source and returns its rows. The connector is named by its keyword: `kafka={"topic": ..}`."""
        fields: dict[str, object] = {
            **connector,
            "format": format,
            "schema": schema,
            "key_format": key_format,
            "key_schema": key_schema,
            "time": time,
            "on_error": on_error,
            "parallelism": parallelism,
        }
        return self._add("sources", name, fields)

    def union(self, name: str, *inputs: Stream, **options: Unpack[StepOptions]) -> Stream:
        """Adds a step that returns the rows of all inputs; columns by name, of equal types."""
        return self._add("steps", name, {"union": [self._reference(name, each) for each in inputs], **options})

    def test(
        self,
        name: str,
        *,
        inputs: Mapping[str, Sequence[Mapping[str, object]]],
        outputs: Mapping[str, Sequence[Mapping[str, object]]],
    ) -> None:
        """Adds a case of `headrace test`: rows by source, expected rows by sink or step."""
        where = f"test {name!r}"
        self._tests.append({"name": name, "inputs": row_text(inputs, where), "outputs": row_text(outputs, where)})

    def to_dict(self) -> dict[str, Any]:
        """Returns the file form as plain data, unchecked. Contains secrets."""
        nodes = {group: dict(nodes) for group, nodes in self._nodes.items() if nodes or group != "steps"}
        data: dict[str, Any] = {"name": self.name, **self._settings, **nodes}
        if self._tests:
            data["tests"] = list(self._tests)
        return data

    def build(self) -> PipelineModel:
        """Returns the checked pipeline, equal to that of the same file. Paths of files that formats name begin at the
        working directory.

        Raises InvalidPipelineError with every problem, each with its dotted path (`steps.hourly.window`).
        """
        from headrace.spec.reading.load_file import with_files
        from headrace.spec.reading.read import pipeline_from_dict

        return with_files(pipeline_from_dict(self.to_dict()), Path())

    def to_yaml(self) -> str:
        """Returns the pipeline as a file, which loads as an equal pipeline. Contains secrets. Raises
        InvalidPipelineError.
        """
        return yaml_text(self.build().model_copy(update={"files": {}}).to_dict())

    def explain(self) -> str:
        """Returns the logical and the physical plan as text, as `headrace explain` prints them. Raises
        InvalidPipelineError.
        """
        return explain_model(self.build())

    def run(
        self,
        *,
        on_progress: Callable[[Progress], object] | None = None,
        stop_when: Callable[[Progress], bool] | None = None,
    ) -> RunResult:
        """Runs in this process until the sources end; see `headrace.api.run`."""
        return run_model(self.build(), on_progress=on_progress, stop_when=stop_when)

    def replay(
        self,
        spark: SparkSession,
        *,
        until: Bound = None,
        from_: Bound = None,
        savepoint: str | None = None,
        **settings: Unpack[ReplaySettings],
    ) -> ReplayResult:
        """Runs over a range of its sources in a Spark session; see `headrace.spark.replay`."""
        from headrace.api.spark.replaying import replay

        return replay(spark, self, until=until, from_=from_, savepoint=savepoint, **settings)

    def _add(self, group: str, name: str, fields: Mapping[str, object]) -> Stream:
        """Adds a node; omits fields that are None."""
        taken = next((kind for kind, nodes in self._nodes.items() if name in nodes), None)
        if taken is not None:
            raise UserError(
                f"pipeline {self.name!r} has a {taken.removesuffix('s')} {name!r} already",
                remedy="a node's name is its identity: choose another one",
            )
        node = {key: plain(value, f"{group}.{name}.{key}") for key, value in fields.items() if value is not None}
        self._nodes[group][name] = node
        return Stream(self, name)

    def _reference(self, node: str, stream: Stream) -> str:
        if stream.pipeline is not self:
            raise UserError(
                f"step {node!r} reads {stream.reference!r} of another pipeline, {stream.pipeline.name!r}",
                remedy="build both in one pipeline",
            )
        return stream.reference


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The rows of a node, or of one of its side outputs. Each verb adds a named step and returns that step's rows."""

    pipeline: Pipeline
    reference: str

    def __repr__(self) -> str:
        found = self.pipeline._previews.find(self.reference)
        head = f"<Stream {self.reference} of {self.pipeline.name}>"
        return head if found is None else f"{head}\n{found.rows}"

    def _repr_html_(self) -> str:
        from headrace.core.errors import HeadraceError

        title = f"{self.reference} of {self.pipeline.name}"
        found = self.pipeline._previews.find(self.reference)
        try:
            schema = stream_schema(self.pipeline.to_dict(), self.reference) if found is None else found.schema
        except HeadraceError as error:
            # a notebook must show the stream also while its pipeline is not right yet
            return problem_html(title, str(error))
        columns = [(field.name, field.type_text) for field in schema]
        return stream_html(title, columns, None if found is None else found.rows._repr_html_())

    def preview(self, *, rows: int = 10, seconds: float = 10.0) -> pl.DataFrame:
        """Returns the first `rows` rows, read from the real sources in this process; ends with them, with enough rows,
        or after `seconds`. Opens no sink, and commits no offsets. Of updating rows it has every update, but no deletes.

        Raises UserError, InvalidPipelineError for the nodes that the rows come from, and the errors of the sources.
        """
        found = first_rows(self.pipeline.to_dict(), self.reference, rows=rows, seconds=seconds)
        self.pipeline._previews.keep(self.reference, found)
        return found.rows

    def collect(self, *, rows_max: int = 10_000_000) -> pl.DataFrame:
        """Returns all rows, once the sources have ended; of updating rows the last one of each key. Opens no sink, and
        commits no offsets.

        Raises UserError for a source that does not end and for more than `rows_max` rows; else as `preview`.
        """
        return all_rows(self.pipeline.to_dict(), self.reference, rows_max=rows_max)

    @property
    def late(self) -> Stream:
        """The rows that were late for a windowed aggregate, with its input columns."""
        return self._side("late")

    @property
    def bad(self) -> Stream:
        """The rows that failed in this node (`on_error="divert"`), with the reason."""
        return self._side("bad")

    def filter(self, name: str, predicate: Expression, **options: Unpack[StepOptions]) -> Stream:
        """Keeps the rows for which the predicate is true."""
        return self._step(name, {"filter": expression_text(predicate, f"steps.{name}.filter"), **options})

    def select(self, name: str, columns: Sequence[str] | Columns, **options: Unpack[StepOptions]) -> Stream:
        """Returns exactly these columns, in order: names, or name to expression."""
        form = _expressions(columns, f"steps.{name}.select") if isinstance(columns, Mapping) else columns
        return self._step(name, {"select": form, **options})

    def with_columns(self, name: str, columns: Columns, **options: Unpack[StepOptions]) -> Stream:
        """Adds or replaces columns."""
        return self._step(name, {"with_columns": _expressions(columns, f"steps.{name}.with_columns"), **options})

    def drop(self, name: str, columns: Sequence[str], **options: Unpack[StepOptions]) -> Stream:
        """Removes columns."""
        return self._step(name, {"drop": columns, **options})

    def rename(self, name: str, columns: Mapping[str, str], **options: Unpack[StepOptions]) -> Stream:
        """Renames columns: old name to new name."""
        return self._step(name, {"rename": columns, **options})

    def explode(self, name: str, column: str, **options: Unpack[StepOptions]) -> Stream:
        """Returns one row for each element of a list column."""
        return self._step(name, {"explode": column, **options})

    def union(self, name: str, *others: Stream, **options: Unpack[StepOptions]) -> Stream:
        """Returns these rows and those of the others; columns by name, of equal types."""
        return self.pipeline.union(name, self, *others, **options)

    def map(
        self,
        name: str,
        *,
        function: MapFunction | str,
        schema: Mapping[str, object],
        **options: Unpack[StepOptions],
    ) -> Stream:
        """Applies a function to a polars DataFrame of the visible columns: the same rows in the same order, new
        columns.

        A function object travels as its import path. A lambda, a nested function and a function of the running script
        are refused, because no other process could import them.
        """
        path = function_path(function, f"steps.{name}.map")
        return self._step(name, {"map": {"function": path, "schema": schema}, **options})

    def aggregate(
        self,
        name: str,
        *,
        aggregate: Columns,
        key_by: Sequence[str] = (),
        window: Mapping[str, object] | None = None,
        **options: Unpack[AggregateOptions],
    ) -> Stream:
        """Aggregates by key and window; without a window it is a running aggregate, whose result updates."""
        fields: dict[str, object] = {
            "key_by": key_by or None,
            "window": window,
            "aggregate": _expressions(aggregate, f"steps.{name}.aggregate"),
        }
        return self._step(name, {**fields, **options})

    def sink(
        self,
        name: str,
        *,
        format: str | Mapping[str, object] | None = None,  # noqa: A002 - the word of the file
        key_format: str | Mapping[str, object] | None = None,
        parallelism: int | None = None,
        partition: str | Mapping[str, Sequence[str]] | None = None,
        on_error: str | Mapping[str, str] | None = None,
        **connector: Mapping[str, object],
    ) -> Stream:
        """Writes these rows. The connector is named by its keyword: `files={"path": ..}`. Of the stream that it returns
        only `bad` has rows: those that the sink could not write (`on_error="divert"`).
        """
        fields: dict[str, object] = {
            "from": self.reference,
            **connector,
            "format": format,
            "key_format": key_format,
            "parallelism": parallelism,
            "partition": partition,
            "on_error": on_error,
        }
        return self.pipeline._add("sinks", name, fields)

    def _step(self, name: str, fields: Mapping[str, object]) -> Stream:
        return self.pipeline._add("steps", name, {"from": self.reference, **fields})

    def _side(self, output: str) -> Stream:
        node, _, side = self.reference.partition(".")
        if side:
            raise UserError(f"{self.reference} is a side output and has none itself", remedy=f"take that of {node}")
        return Stream(self.pipeline, f"{node}.{output}")


def union(name: str, first: Stream, *others: Stream, **options: Unpack[StepOptions]) -> Stream:
    """Adds a step that returns the rows of all streams; columns by name, of equal types."""
    return first.pipeline.union(name, first, *others, **options)


def _expressions(columns: Columns, where: str) -> dict[str, str]:
    return {name: expression_text(given, f"{where}.{name}") for name, given in columns.items()}


# ---- previews --------------------------------------------------------------------------------------------------------


PREVIEWS_MAX = 16
"""Previews of a pipeline that are kept for its streams to show."""


class Previews:
    """The last preview of each stream, of the `PREVIEWS_MAX` streams that were previewed last. A node
    never changes once it was added, so a preview stays one of it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Preview] = OrderedDict()

    def keep(self, reference: str, preview: Preview) -> None:
        """Replaces the stream's last preview."""
        self._kept[reference] = preview
        self._kept.move_to_end(reference)
        while len(self._kept) > PREVIEWS_MAX:
            self._kept.popitem(last=False)

    def find(self, reference: str) -> Preview | None:
        """The stream's last preview; None: there is none."""
        return self._kept.get(reference)


def first_rows(data: dict[str, Any], reference: str, *, rows: int, seconds: float) -> Preview:
    """The first rows of a stream of the pipeline `data`, which need not have sinks, nor valid nodes elsewhere."""
    from headrace.core.errors import UserError
    from headrace.local.inspection.preview import preview
    from headrace.local.pipeline_file import Loaded

    if rows < 1:
        raise UserError(f"preview of {reference}: rows={rows} asks for no row", remedy="ask for 1 or more")
    if seconds <= 0:
        raise UserError(f"preview of {reference}: seconds={seconds:g} leaves no time", remedy="give it some")
    return preview(Loaded(_model(data, reference)), reference, rows=rows, seconds=seconds)


def all_rows(data: dict[str, Any], reference: str, *, rows_max: int) -> pl.DataFrame:
    """All rows of a stream, whose sources must end."""
    from headrace.local.inspection.preview import collect
    from headrace.local.pipeline_file import Loaded

    return collect(Loaded(_model(data, reference)), reference, rows_max=rows_max)


def stream_schema(data: dict[str, Any], reference: str) -> Schema:
    """The columns of a stream. Raises InvalidPipelineError."""
    from headrace.local.inspection.preview import schema_of_stream
    from headrace.local.pipeline_file import Loaded

    return schema_of_stream(Loaded(_model(data, reference)), reference)


def _model(data: dict[str, Any], reference: str) -> PipelineModel:
    from headrace.spec.reading.read import pipeline_from_dict

    return pipeline_from_dict(upstream_of(data, reference), needs_sinks=False)


def upstream_of(data: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """The file form of a pipeline with only `reference` and the nodes that its rows come from: no sinks, no tests."""
    steps: Mapping[str, Mapping[str, Any]] = data.get("steps", {})
    needed: set[str] = set()
    left = [split_output(reference)[0]]
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        left += [split_output(each)[0] for each in _inputs(steps.get(name, {}))]
    kept = {key: value for key, value in data.items() if key not in {"sources", "steps", "sinks", "tests"}}
    kept["sources"] = {name: node for name, node in data.get("sources", {}).items() if name in needed}
    if behind := {name: node for name, node in steps.items() if name in needed}:
        kept["steps"] = behind
    return kept


def _inputs(step: Mapping[str, Any]) -> list[str]:
    from headrace.spec.verbs.table import named_inputs

    return [name for name, _ in named_inputs(step)]


def stream_html(title: str, columns: Sequence[tuple[str, str]], frame_html: str | None) -> str:
    """The HTML of a stream, for notebooks. columns: (name, type); frame_html: of its preview, or None."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(kind)}</td></tr>"
        for name, kind in columns
    )
    table = f"<table><thead><tr><th>column</th><th>type</th></tr></thead><tbody>{rows}</tbody></table>"
    return f"<div><b>{escape(title)}</b>{table}{frame_html or ''}</div>"


def problem_html(title: str, problem: str) -> str:
    """The HTML of a stream whose columns cannot be found."""
    return f"<div><b>{escape(title)}</b><pre>{escape(problem)}</pre></div>"
