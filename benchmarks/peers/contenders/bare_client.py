"""The interface of the Kafka client of a bare loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import polars as pl
from bare_steps.partition_runs import PartitionRun

Schema = dict[str, pl.DataType]
CONSUMER = {
    "group.id": "peers-bare",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": "10",
}
PRODUCER = {
    "compression.type": "lz4",
    "linger.ms": "20",
    "batch.size": "262144",
    "acks": "all",
    "enable.idempotence": "true",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "500000",
}
"""Settings of librdkafka; the producer's are those of Flink's producer."""
QUEUED_MAX = 900_000
"""Messages in the producer's queue before a loop waits."""
SEND_ROWS = 4_000
"""Number of results that go to one partition before the next one."""


@dataclass(frozen=True, slots=True)
class Polled:
    """A parsed batch and its runs, in order."""

    rows: pl.DataFrame
    runs: list[PartitionRun]


class BareClient(Protocol):
    """Reads one topic from its beginning and writes another one."""

    def poll(self) -> Polled | None:
        """Returns the next batch; None if nothing came."""

    def finish(self, partition: int) -> None:
        """Stops reading a partition."""

    def send(self, rows: pl.DataFrame) -> None:
        """Queues results."""

    def commit(self, positions: Mapping[int, int]) -> None:
        """Returns when the broker has all queued results and the positions (partition -> offset)."""

    def close(self) -> None:
        """Closes the clients."""
