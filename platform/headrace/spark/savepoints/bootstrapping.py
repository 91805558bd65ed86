"""A savepoint from DataFrames: keys and values that a user has computed become the state that a job starts from.

    path = bootstrap(spark, pipeline, "/savepoints", states={"totals": totals})
    headrace submit pipeline.yaml --from-savepoint <path>

    DataFrame ─ share of each key (key group) ─> repartition ─> one task for each share: files ─> manifest, last

`bootstrap_columns(pipeline, step)` returns the columns that a step needs. The code of
`headrace.checkpoint.savepoints.bootstrap`, which also runs on frames, checks, hashes and writes the rows; Spark only
moves them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import polars as pl

from headrace import __version__
from headrace.checkpoint.manifest import StateHandle
from headrace.checkpoint.savepoints.bootstrap import (
    Bootstrap,
    Positions,
    discard,
    finish,
    given_states,
    new_folder,
    shares,
    source_states,
    write_time,
)
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.connect.source import Split
from headrace.core.clock import SystemClock
from headrace.core.errors import UserError
from headrace.execution.planning import JobPlans
from headrace.operators.aggregates.given import GivenColumn
from headrace.operators.bootstrap.state import GivenState
from headrace.plan.contexts import source_context
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.spark.launch.bounds import START
from headrace.spark.launch.replay import exchange_for
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.load_file import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@runtime_checkable
class Builder(Protocol):
    """An object that builds a pipeline: the Python builder."""

    def build(self) -> Pipeline:
        """The pipeline as a model."""
        ...


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AnyPipeline = Pipeline | Builder | str | Path
"""A pipeline as a model, as a builder, or the path of its YAML file."""


def bootstrap_columns(pipeline: AnyPipeline, step: str) -> tuple[GivenColumn, ...]:
    """Returns the columns of a step's DataFrame. Raises UserError for a node without state, InvalidPipelineError."""
    plan = JobPlans(_model(pipeline).to_dict()).plan(1)
    return given_states(plan, [step])[step].columns


def bootstrap(
    spark: SparkSession,
    pipeline: AnyPipeline,
    path: str,
    states: Mapping[str, DataFrame],
    *,
    positions: Positions | None = None,
    reached: datetime | None = None,
) -> str:
    """Writes a savepoint into the folder `path` and returns the savepoint's own path.

    states      step -> its keys and values, one row for each key (and window)
    positions   source -> topic -> partition -> the first position that is not in the state; None: the pipeline's start
    reached     event time up to which the state, and published output, are complete: windows that end by then never
                fire

    Raises UserError that names step and column of wrong rows, InvalidPipelineError, ExternalError.
    """
    boot = _boot(_model(pipeline), positions or {}, reached)
    given = given_states(boot.plan, states)
    source_states(boot)  # raises for wrong positions, before anything is written
    for name, frame in states.items():
        given[name].check(_types(frame))
    store = new_folder(boot, path)
    try:
        handles = [
            handle for name, frame in states.items() for handle in _write(spark, boot, given[name], name, frame, store)
        ]
        return finish(boot, handles, store)
    except BaseException:
        discard(store)
        raise


def _model(pipeline: AnyPipeline) -> Pipeline:
    match pipeline:
        case Pipeline():
            return pipeline
        case Builder():
            return pipeline.build()
        case _:
            return load_pipeline(Path(pipeline), environ=os.environ).pipeline


def _boot(model: Pipeline, positions: Positions, reached: datetime | None) -> Bootstrap:
    if reached is not None and reached.tzinfo is None:
        raise UserError(f"reached={reached} has no time zone", remedy="give an instant: datetime(.., tzinfo=UTC)")
    plans = JobPlans(model.to_dict())
    plan, facts = plans.plan(model.parallelism), plans.facts(model.parallelism)
    return Bootstrap(
        plan=plan,
        nodes=facts.nodes,
        plan_hash=facts.plan_hash,
        version=__version__,
        created_at_ms=SystemClock().now_ms(),
        positions=positions,
        splits={name: _splits(plan, name, own) for name, own in positions.items()},
        reached_ms=None if reached is None else (reached - _EPOCH) // timedelta(milliseconds=1) - 1,
        definitions=facts.definitions,
    )


def _splits(plan: PhysicalPlan, source: str, positions: Mapping[str, Mapping[int, int]]) -> Sequence[Split]:
    """Returns a source's splits as its enumerator finds them; none for a node that is no source.

    The enumerator of a log is opened at these positions, so that it rejects those that cannot be read. Raises
    UserError.
    """
    found = [node for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec) and node.node == source]
    if not found:
        return ()
    config = found[0].config
    if START in type(config).model_fields and positions:
        config = config.model_copy(update={START: {topic: dict(own) for topic, own in positions.items()}})
    enumerator = config.open_enumerator(source_context(found[0], plan.pipeline, plan.batch_rows_max))
    try:
        return enumerator.discover()
    except UserError as cause:
        raise UserError(f"positions of source {source!r}: {cause.message}", remedy=cause.remedy) from cause
    finally:
        enumerator.close()


_TYPES: Mapping[str, pl.DataType] = {
    "boolean": pl.Boolean(),
    "byte": pl.Int8(),
    "short": pl.Int16(),
    "integer": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
    "void": pl.Null(),
}
"""Keys are the names of types in Spark's JSON schemas."""
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)\Z")
_TEXT = re.compile(r"(var)?char\(\d+\)\Z")


def _types(frame: DataFrame) -> dict[str, pl.DataType]:
    """Returns the columns of a DataFrame with their Arrow types; Unknown for types that no step accepts."""
    return {field.name: _type(field.dataType.jsonValue()) for field in frame.schema.fields}


def _type(said: object) -> pl.DataType:
    match said:
        case str():
            if decimal := _DECIMAL.match(said):
                return pl.Decimal(int(decimal[1]), int(decimal[2]))
            return _TYPES["string"] if _TEXT.match(said) else _TYPES.get(said, pl.Unknown())
        case {"type": "array", "elementType": inner}:
            return pl.List(_type(inner))
        case {"type": "struct", "fields": fields} if isinstance(fields, list):
            return pl.Struct({field["name"]: _type(field["type"]) for field in fields})
        case _:
            return pl.Unknown()


def _write(
    spark: SparkSession, boot: Bootstrap, given: GivenState, name: str, frame: DataFrame, store: ObjectStore
) -> list[StateHandle]:
    """Writes one step's state in Spark tasks; returns all handles."""
    from pyspark.sql import functions as sql

    from headrace.spark.savepoints import bootstrap_sink as sink

    cut = shares(boot, name, min(boot.plan.max_parallelism, max(1, exchange_for(spark).parallelism)))
    config = given.config
    number = sql.lit(0)
    if given.keys:
        function = sink.numbering(config, len(cut), boot.plan.max_parallelism)
        number = sql.arrow_udf(function, "int")(sql.struct(*(frame[f"`{key}`"] for key in given.keys)))
    order = sink.ShareOrder(config, cut, store.url, f"state/{unique_part()}.json")
    spark.dataSource.register(sink.BootstrapSink)
    placed = frame.withColumn(sink.SHARE, number).repartitionById(len(cut), sql.col(sink.SHARE))
    placed.write.format(sink.NAME).option("order", order.text()).mode("append").save()
    written = sink.WRITTEN.validate_json(store.read(order.report))
    store.delete([order.report])
    if written.wrong:
        message, remedy = written.wrong[0]
        raise UserError(message, remedy=remedy)
    return [*write_time(given, cut[0], store), *written.handles]
