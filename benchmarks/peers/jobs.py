"""The jobs that all contenders run, with their sizes.

Every job reads JSON from a topic of `PARTITIONS` partitions up to an offset and writes JSON, exactly once, with a
checkpoint or transaction each second. A contender runs each job twice, over `small_rows` and over `rows`: the
difference is its steady cost, the second alone its cost with the start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

PARTITIONS = 4
WINDOW_MS, OUT_OF_ORDER_MS, CHECKPOINT_MS = 10_000, 1_000, 1_000


class Name(StrEnum):
    """The name of a job in `--only`."""

    K = "K"
    P = "P"
    KEYS = "keys"
    DISK = "disk"
    WIDE = "wide"


class Work(StrEnum):
    """The processing between the topics: the name that all contenders use."""

    WINDOW = "window"
    FILTER = "filter"
    WIDE = "wide"


@dataclass(frozen=True, slots=True)
class Job:
    """One job.

    title           one line for the page
    keys            distinct keys of the input; 0: rows are wide ones, which have none
    flink_heap_gb   of Flink's JVM, initial and maximal
    warm_ups        full runs of Flink before it is measured, the first of which is the fresh one
    state_mb        memory of state, beyond which it lies on disk: in Flink in RocksDB; None: in memory
    """

    name: Name
    title: str
    work: Work
    keys: int
    rows: int
    small_rows: int
    flink_heap_gb: int
    warm_ups: int
    state_mb: int | None = None

    def __post_init__(self) -> None:
        assert 0 < self.small_rows < self.rows, "the slope needs two sizes"
        assert self.rows % PARTITIONS == self.small_rows % PARTITIONS == 0, "partitions hold equally many rows"

    @property
    def topic(self) -> str:
        """The input topic; jobs with the same data share it."""
        return f"in-{self.keys}-{self.rows}"


JOBS = {
    job.name: job
    for job in (
        Job(
            name=Name.K,
            title="count and sum by key (10,000 keys) and 10 s window of event time; 57-byte JSON",
            work=Work.WINDOW,
            keys=10_000,
            rows=6_000_000,
            small_rows=600_000,
            flink_heap_gb=2,
            warm_ups=4,
        ),
        Job(
            name=Name.P,
            title="filter that keeps half of the rows; 57-byte JSON",
            work=Work.FILTER,
            keys=10_000,
            rows=6_000_000,
            small_rows=600_000,
            flink_heap_gb=2,
            warm_ups=4,
        ),
        Job(
            name=Name.KEYS,
            title="count and sum by key (1,000,000 keys) and 10 s window; two result rows for three input rows",
            work=Work.WINDOW,
            keys=1_000_000,
            rows=3_000_000,
            small_rows=600_000,
            flink_heap_gb=6,
            warm_ups=3,
        ),
        Job(
            name=Name.DISK,
            title="the same with 64 MiB for state, on disk beyond it; Flink's state is in RocksDB",
            work=Work.WINDOW,
            keys=1_000_000,
            rows=3_000_000,
            small_rows=600_000,
            flink_heap_gb=2,
            warm_ups=2,
            state_mb=64,
        ),
        Job(
            name=Name.WIDE,
            title="filter that keeps half of the rows, all fields read and written; 640-byte JSON of 20 fields of "
            "all types, with lists, structs and decimals in a list of structs",
            work=Work.WIDE,
            keys=0,
            rows=600_000,
            small_rows=100_000,
            flink_heap_gb=2,
            warm_ups=4,
        ),
    )
}


def sized(job: Job, scale: float) -> Job:
    """Returns the job with `scale` times its rows, in whole rounds over the partitions."""

    def scaled(rows: int) -> int:
        return max(int(rows * scale) // PARTITIONS, 1) * PARTITIONS

    return replace(job, rows=scaled(job.rows), small_rows=scaled(job.small_rows))
