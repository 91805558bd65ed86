"""The result rows of an unpublished replay: read from their staged files, in this process or by Spark.

    share of a subtask: file 0, file 1, ..   rows in the order in which they were made; a key's rows are in one share

Updating rows are reduced to the last row of each key, which a sink would hold at the end. Hidden columns are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from headrace.checkpoint.paths import job_url, staged_path
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.unique_names import unique_part
from headrace.core.batch import OP, concat_batches
from headrace.core.errors import UserError, did_you_mean
from headrace.core.last_rows import last_rows
from headrace.execution.planning import plan_sinks
from headrace.plan.physical import SinkSpec
from headrace.spark.driver.publication import Say
from headrace.spark.driver.replay import ReplayOutcome
from headrace.spark.driver.unpublished import Owner
from headrace.spark.driver_machine.epoch import Splits
from headrace.spark.launch.replay import Prepared, exchange_for, exchange_of
from headrace.spark.task.output.staging_end import encode_staged, read_staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NUMBER = r"-(\d+)-[0-9a-f]+\.parquet$"
"""The number of a file within its share, in its name (`checkpoint.paths.staged_path`)."""
_NOWHERE = "empty"


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of an outcome, by sink. owner: keeps them while this process lives; None: they are published."""

    outcome: ReplayOutcome
    sinks: Mapping[str, SinkSpec]
    owner: Owner | None = None

    def sink(self, name: str) -> SinkSpec:
        """Returns a sink's planned spec. Raises UserError with the nearest name."""
        if name not in self.sinks:
            hint = did_you_mean(name, tuple(self.sinks))
            raise UserError(f"there is no sink {name!r}", remedy=hint or f"sinks: {', '.join(self.sinks)}")
        return self.sinks[name]

    def frame(self, name: str) -> pl.DataFrame:
        """Returns the final rows, in this process. Raises UserError, ExternalError."""
        spec = self.sink(name)
        batches = list(self.batches(name))
        rows = concat_batches(batches) if batches else spec.schema.empty()
        standing = rows if spec.update_key is None else last_rows(rows, spec.update_key)
        return standing.select(list(spec.schema.names))

    def dataframe(self, name: str, spark: SparkSession) -> DataFrame:
        """Returns the same rows as a Spark DataFrame, which reads the files when it is evaluated: executors must reach
        them. Raises UserError.
        """
        spec = self.sink(name)
        rows = spark.read.parquet(*self._urls(spec))
        standing = rows if spec.update_key is None else _standing(rows, spec.update_key)
        return standing.select(*(f"`{column}`" for column in spec.schema.names))

    def delete(self) -> None:
        """Deletes the job's folder in checkpoint storage, rows and journal. A savepoint in another folder stays.
        Idempotent.
        """
        _delete(self.outcome.storage, self.owner)

    def batches(self, name: str) -> Iterator[pl.DataFrame]:
        """Returns all rows, updates one by one, with their hidden columns; a key's rows in order. Raises
        ExternalError.
        """
        store = open_store(self.outcome.storage)
        for share in self.outcome.staged:
            if share.sink == name:
                yield from read_staged(share.files, store)

    def _urls(self, spec: SinkSpec) -> list[str]:
        """Returns the URLs of all files, or of one empty file with the columns if there are none."""
        store = open_store(self.outcome.storage)
        paths = [part.path for share in self.outcome.staged if share.sink == spec.node for part in share.files]
        if not paths:
            paths = [staged_path(0, 0, f"{spec.node}-{_NOWHERE}", 0, 0, unique_part())]
            store.write(paths[0], encode_staged(spec.schema.empty()))
        return [f"{_spark_url(store.url)}/{path}" for path in paths]


def stage(prepared: Prepared, spark: SparkSession, say: Say, *, splits: Splits | None = None) -> StagedRows:
    """Runs a replay in a session that may be the user's. If an unpublished replay fails, its files are deleted. Raises
    UserError if executors do not reach its storage, and the replay's errors.

    splits   the result of `Prepared.resolve`; None: resolved now
    """
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        prepared.require_reachable(context.master, dict(context.getConf().getAll()))
    folder = job_url(prepared.storage, prepared.job)
    owner = None if prepared.options.publish else Owner(open_store(folder))
    try:
        chosen = prepared.options.back_end == "dataframe"
        exchange = exchange_of("dataframe", spark) if chosen else exchange_for(spark)
        outcome = prepared.replay(exchange, say, splits=splits).run()
    except BaseException:
        if owner is not None:
            _delete(folder, owner)
        raise
    return StagedRows(outcome, {sink.node: sink for _, sink in plan_sinks(prepared.plans.plan(1))}, owner)


def _delete(folder: str, owner: Owner | None) -> None:
    if owner is not None:
        owner.release()
    store = open_store(folder)
    store.delete(store.list(""))


def _spark_url(url: str) -> str:
    """Returns a store's URL in the form of Hadoop's file systems."""
    if "://" not in url:
        return f"file://{url}"
    return url.replace("s3://", "s3a://", 1)


def _standing(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Returns the last row of each key, unless it is a delete."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    number = f.regexp_extract(f.col("_metadata.file_name"), _NUMBER, 1).cast("int")
    place = [f.desc("__file"), f.desc("__row")]
    window = Window.partitionBy(*(f"`{column}`" for column in key)).orderBy(*place) if key else Window.orderBy(*place)
    placed = rows.select("*", number.alias("__file"), f.col("_metadata.row_index").alias("__row"))
    last = placed.withColumn("__last", f.row_number().over(window)).filter("__last = 1")
    return last.filter(f"not {OP}") if OP in rows.columns else last
