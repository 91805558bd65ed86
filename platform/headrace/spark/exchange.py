"""Running levels on Spark: what goes from one to the next is shuffled by Spark, and the last one comes to the driver.

    RddExchange         RDDs of (partition, bytes) with an identity partitioner: the default, needs no pandas
    DataFrameExchange   mapInArrow and repartitionById, where a session has no RDDs (Spark Connect); needs pandas

Spark schedules, retries and keeps what was shuffled; nothing here looks into a blob. The only module of this package
that runs jobs on Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.spark import task_entry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from headrace.spark.order import JobOrder


class Exchange(Protocol):
    """A way to run things on Spark."""

    @property
    def parallelism(self) -> int:
        """Tasks that the cluster runs at a time, about."""
        ...

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels. widths: partitions of each. Gives what the last one sends on, in any order."""
        ...

    def each(self, orders: Sequence[bytes]) -> None:
        """Publishes each of these shares (`headrace.spark.publish`) in a task of its own."""
        ...


class RddExchange:
    """By RDDs."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def parallelism(self) -> int:
        """As Spark says."""
        return int(self._context.defaultParallelism)

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels in one Spark job: a stage for each."""
        shared = self._context.broadcast(order)
        try:
            blobs = self._context.parallelize(range(widths[0]), widths[0]).mapPartitionsWithIndex(
                lambda partition, _: task_entry.level(shared, 0, partition, ())
            )
            for level, width in enumerate(widths[1:], start=1):
                blobs = blobs.partitionBy(width, _identity).mapPartitionsWithIndex(_reading(shared, level))
            return [data for _, data in blobs.collect()]
        finally:
            shared.unpersist()

    def each(self, orders: Sequence[bytes]) -> None:
        """One task for each."""
        if orders:
            self._context.parallelize(orders, len(orders)).map(task_entry.share).collect()


def _reading(
    shared: task_entry.Shared, level: int
) -> Callable[[int, Iterable[tuple[int, bytes]]], Iterator[tuple[int, bytes]]]:
    return lambda partition, arriving: task_entry.level(shared, level, partition, (data for _, data in arriving))


def _identity(partition: int) -> int:
    return partition


PARALLELISM = "8"
"""Tasks at a time on a cluster that does not say."""
_COLUMNS = "partition int, blob binary"
_CONFIGURATION = {
    # a blob is one value: few of them make a batch, and no more than fit into memory twice
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # the number of partitions means something
    "spark.sql.adaptive.enabled": "false",
}


class DataFrameExchange:
    """By DataFrames of (partition, blob)."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def parallelism(self) -> int:
        """As its configuration says: such a session does not tell of its cluster."""
        return int(self._spark.conf.get("spark.default.parallelism", PARALLELISM) or PARALLELISM)

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels as one query."""
        for name, value in _CONFIGURATION.items():
            self._spark.conf.set(name, value)
        blobs = self._spark.range(widths[0]).selectExpr("cast(id as int) as partition", "cast(null as binary) as blob")
        for level, width in enumerate(widths):
            blobs = blobs.repartitionById(width, "partition").mapInArrow(_in_arrow(order, level), _COLUMNS)
        return [bytes(row.blob) for row in blobs.collect()]

    def each(self, orders: Sequence[bytes]) -> None:
        """One task for each."""
        if not orders:
            return
        rows = [(number, bytearray(order)) for number, order in enumerate(orders)]
        table = self._spark.createDataFrame(rows, _COLUMNS).repartitionById(len(orders), "partition")
        table.mapInArrow(_sharing, _COLUMNS).collect()


def _sharing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column(1).to_pylist():
            yield _record(0, task_entry.share(blob))


@dataclass(frozen=True, slots=True)
class _Here:
    """A value that came with the task, unpickled when it is asked for: by then polars knows its threads."""

    pickled: bytes

    @property
    def value(self) -> JobOrder:
        order: JobOrder = pickle.loads(self.pickled)
        return order


def _in_arrow(order: JobOrder, level: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    pickled = pickle.dumps(order)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a task"
        arriving = (blob for batch in batches for blob in batch.column(1).to_pylist() if blob is not None)
        for target, data in task_entry.level(_Here(pickled), level, context.partitionId(), arriving):
            yield _record(target, data)

    return run


def _record(target: int, data: bytes) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.record_batch({"partition": pa.array([target], pa.int32()), "blob": pa.array([data], pa.binary())})
