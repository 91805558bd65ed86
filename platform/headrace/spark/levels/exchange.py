"""Running levels on Spark: what goes from one to the next is shuffled by Spark, and the last one comes to the driver.

    RddExchange         RDDs of (partition, bytes) with an identity partitioner: the default, needs no pandas
    DataFrameExchange   mapInArrow and repartitionById, where a session has no RDDs (Spark Connect); needs pandas

Spark schedules, retries and keeps what was shuffled; nothing here looks into a blob. The only module of this package
that runs jobs on Spark.

Shares are published by Spark jobs of one task each, several at a time: Spark tries no task a second time beside the
first one (speculation) that is alone in its stage. Two publishers of one share would shut each other out.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.spark.levels.parallel_calls import side_by_side
from headrace.spark.levels.progress import Tell, watched
from headrace.spark.task import entry as task_entry
from headrace.spark.task.failures import spark_failures

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from headrace.spark.task.order import JobOrder

STATE_BYTES = "spark.headrace.state.bytes"
"""Setting: bytes of state that a task holds in memory; what is more goes to local disk (`headrace.spark.task.fold`)."""


class Exchange(Protocol):
    """A way to run things on Spark."""

    @property
    def parallelism(self) -> int:
        """Tasks that the cluster runs at a time, about."""
        ...

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels. widths: partitions of each. Gives what the last one sends on, in any order.

        Raises HeadraceError: the task's own, where one failed as often as Spark lets it.
        """
        ...

    def each(self, orders: Sequence[bytes]) -> None:
        """Publishes each of these shares (`driver.publish_shares`) in a task of its own. Raises HeadraceError."""
        ...


class RddExchange:
    """By RDDs. tell: is told how far it is."""

    def __init__(self, spark: SparkSession, tell: Tell | None = None) -> None:
        self._context = spark.sparkContext
        self._tell = tell

    @property
    def parallelism(self) -> int:
        """As Spark says."""
        return int(self._context.defaultParallelism)

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels in one Spark job: a stage for each."""
        held = self._context.getConf().get(STATE_BYTES)
        shared = self._context.broadcast(order if held is None else replace(order, state_bytes_max=int(held)))
        group = f"headrace-{order.job}-{order.attempt}-{order.epoch}"
        watch = watched(self._context, group, len(widths), self._tell)
        try:
            with spark_failures(), _grouped(self._context, group, f"{order.job}: computing"), watch:
                blobs = self._context.parallelize(range(widths[0]), widths[0]).mapPartitionsWithIndex(
                    lambda partition, _: task_entry.level(shared, 0, partition, ())
                )
                for level, width in enumerate(widths[1:], start=1):
                    blobs = blobs.partitionBy(width, _identity).mapPartitionsWithIndex(_reading(shared, level))
                return [data for _, data in blobs.collect()]
        finally:
            shared.unpersist()

    def each(self, orders: Sequence[bytes]) -> None:
        """A job of one task for each."""
        side_by_side(self._published, orders, at_once=self.parallelism, tell=self._tell)

    def _published(self, order: bytes) -> None:
        with spark_failures(), _grouped(self._context, "headrace-publishing", "headrace: publishing a share"):
            self._context.parallelize([order], 1).map(task_entry.share).collect()


@contextmanager
def _grouped(context: SparkContext, group: str, description: str) -> Iterator[None]:
    """Jobs of this thread go by these names inside: the session may be the user's own."""
    names = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = {name: context.getLocalProperty(name) for name in names}
    context.setJobGroup(group, description)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


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
    """By DataFrames of (partition, blob). tell: is told how far publishing is."""

    def __init__(self, spark: SparkSession, tell: Tell | None = None) -> None:
        self._spark = spark
        self._tell = tell

    @property
    def parallelism(self) -> int:
        """As its configuration says: such a session does not tell of its cluster."""
        return int(self._spark.conf.get("spark.default.parallelism", PARALLELISM) or PARALLELISM)

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels as one query."""
        with spark_failures(), self._configured(_CONFIGURATION):
            ids = self._spark.range(widths[0])
            blobs = ids.selectExpr("cast(id as int) as partition", "cast(null as binary) as blob")
            for level, width in enumerate(widths):
                blobs = blobs.repartitionById(width, "partition").mapInArrow(_in_arrow(order, level), _COLUMNS)
            return [bytes(row.blob) for row in blobs.collect()]

    def each(self, orders: Sequence[bytes]) -> None:
        """A query of one task for each."""
        side_by_side(self._published, orders, at_once=self.parallelism, tell=self._tell)

    def _published(self, order: bytes) -> None:
        with spark_failures():
            self._spark.range(0, 1, 1, 1).mapInArrow(_sharing(order), _COLUMNS).collect()

    @contextmanager
    def _configured(self, settings: Mapping[str, str]) -> Iterator[None]:
        """The session may be the user's own: afterwards it is as it was."""
        conf = self._spark.conf
        before = {name: conf.get(name, None) for name in settings}
        for name, value in settings.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, earlier in before.items():
                if earlier is None:
                    conf.unset(name)
                else:
                    conf.set(name, earlier)


def _sharing(order: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield _record(0, task_entry.share(order))

    return run


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
