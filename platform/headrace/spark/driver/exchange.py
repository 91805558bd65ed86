"""Runs levels on Spark: Spark shuffles the blobs from one level to the next, and the last level's arrive at the driver.

    RddExchange         RDDs of (partition, bytes) with an identity partitioner: the default, needs no pandas
    DataFrameExchange   mapInArrow and repartitionById, where a session has no RDDs (Spark Connect); needs pandas

Spark schedules, retries and stores the shuffled blobs; this module never decodes one. It is the only module of this
package that runs Spark jobs.

A share is published by a Spark job of one task, because Spark's speculation never runs a second copy of a task that is
alone in its stage. Two publishers of one share would fence each other. Several jobs run at a time; a thread of the
driver waits for each.
"""

from __future__ import annotations

import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headrace.spark.cluster.progress import Tell, watched
from headrace.spark.task import entry as task_entry
from headrace.spark.task.failures import spark_failures

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from headrace.spark.task.order import JobOrder


STATE_BYTES = "spark.headrace.state.bytes"
"""Setting: bytes of state that a task holds in memory; beyond it, state goes to files on local disk."""
PARALLELISM = "8"
"""Assumed number of tasks at a time, for a cluster that does not report it."""
_COLUMNS = "partition int, blob binary"
_CONFIGURATION = {
    # a blob is one value: a batch holds few of them, so that memory holds two batches
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    # adaptive execution would merge partitions, but a partition's number is its subtask
    "spark.sql.adaptive.enabled": "false",
}
AT_ONCE_MAX = 32
"""Greatest number of threads, however many tasks a cluster runs: each thread waits for one task."""


class Exchange(Protocol):
    """A way to run levels on Spark."""

    @property
    def parallelism(self) -> int:
        """About the number of tasks that the cluster runs at a time."""
        ...

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels. widths: partitions of each. Returns the last level's blobs, in any order.

        Raises HeadraceError: the task's own, if one failed as often as Spark allows.
        """
        ...

    def each(self, orders: Sequence[bytes]) -> None:
        """Publishes each of these shares (`task.publish_shares`) in a task of its own. Raises HeadraceError."""
        ...


class RddExchange:
    """Runs levels by RDDs. tell: receives lines of progress."""

    def __init__(self, spark: SparkSession, tell: Tell | None = None) -> None:
        self._context = spark.sparkContext
        self._tell = tell

    @property
    def parallelism(self) -> int:
        """Spark's default parallelism."""
        return int(self._context.defaultParallelism)

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Runs all levels in one Spark job, one stage for each."""
        held = self._context.getConf().get(STATE_BYTES)
        # once per executor, not pickled with every task
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
                # only reports are left: the last level has consumed all rows
                return [data for _, data in blobs.collect()]
        finally:
            shared.unpersist()

    def each(self, orders: Sequence[bytes]) -> None:
        """Runs a job of one task for each share."""
        side_by_side(self._published, orders, at_once=self.parallelism, tell=self._tell)

    def _published(self, order: bytes) -> None:
        with spark_failures(), _grouped(self._context, "headrace-publishing", "headrace: publishing a share"):
            self._context.parallelize([order], 1).map(task_entry.share).collect()


@contextmanager
def _grouped(context: SparkContext, group: str, description: str) -> Iterator[None]:
    """Sets the names of this thread's jobs, and restores them: the session may be the user's."""
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


class DataFrameExchange:
    """Runs levels by DataFrames of (partition, blob). tell: receives the progress of publishing."""

    def __init__(self, spark: SparkSession, tell: Tell | None = None) -> None:
        self._spark = spark
        self._tell = tell

    @property
    def parallelism(self) -> int:
        """The configured parallelism: a Connect session does not report its cluster."""
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
        """Runs a query of one task for each share."""
        side_by_side(self._published, orders, at_once=self.parallelism, tell=self._tell)

    def _published(self, order: bytes) -> None:
        with spark_failures():
            self._spark.range(0, 1, 1, 1).mapInArrow(_sharing(order), _COLUMNS).collect()

    @contextmanager
    def _configured(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Sets these settings, and restores them: the session may be the user's."""
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
    """A pickled value that came with the task. It is unpickled on use, after polars knows its number of threads."""

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


def side_by_side(call: Callable[[bytes], None], orders: Sequence[bytes], *, at_once: int, tell: Tell | None) -> None:
    """Calls with each of the orders. After an error no call is started, running ones finish, and the first error is
    raised.
    """
    waiting = deque(orders)
    errors: list[Exception] = []
    done: list[None] = []

    def work() -> None:
        while not errors:
            try:
                # popleft is atomic: threads share the queue without a lock
                order = waiting.popleft()
            except IndexError:
                return
            try:
                call(order)
            except Exception as error:
                errors.append(error)
                return
            done.append(None)
            if tell is not None:
                tell(f"publishing: {len(done)}/{len(orders)} shares")

    threads = [
        threading.Thread(target=work, name=f"spark-job-{number}", daemon=True)
        for number in range(min(len(orders), max(at_once, 1), AT_ONCE_MAX))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
