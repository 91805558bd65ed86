"""A job that copies rows from topic to topic exactly once, and does nothing of its own: tests write every row.

    rows ─> copies        two partitions, two subtasks; a subtask's writer has the rows of one partition

So a test knows which row is in which transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from support.clusters.job import ClusterJob
from support.clusters.session import Cluster
from support.clusters.stopping_points import StoppingPoints
from support.kafka.broker import Broker, consume_all, create_topic, produce, unique_topic
from support.processes.running import wait_until

PARTITIONS = 2
PIPELINE = """\
name: {name}
parallelism: 2
checkpoint: {{interval: 500ms, timeout: {checkpoint_timeout}}}
restart: {{strategy: exponential-delay, initial: 200ms, max: 500ms}}
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: {name}-rows, start: earliest}}
    format: json
    schema: {{id: string not null}}
sinks:
  copies:
    from: rows
    stopping_kafka:
      brokers: "{brokers}"
      topic: {name}-copies
      delivery: exactly-once
      transaction_timeout: {transaction_timeout}
      points: "{points}"
    format: json
"""


class CopyingJob(ClusterJob):
    """With its topics and rows."""

    def __init__(
        self,
        cluster: Cluster,
        broker: Broker,
        points: StoppingPoints,
        *,
        checkpoint_timeout: str = "5m",
        transaction_timeout: str = "15m",
    ) -> None:
        self.broker = broker
        self.name = unique_topic("copy")
        for kind in ("rows", "copies"):
            create_topic(broker, f"{self.name}-{kind}", PARTITIONS)
        text = PIPELINE.format(
            name=self.name,
            brokers=broker.bootstrap,
            checkpoint_timeout=checkpoint_timeout,
            transaction_timeout=transaction_timeout,
            points=points.folder,
        )
        super().__init__(cluster, cluster.folder / f"{self.name}.yaml", text)
        self.written: Counter[str] = Counter()
        """All rows that went in, each of them once."""

    def write(self, count: int = 10) -> Counter[str]:
        """New rows for each partition, and so for each subtask: `count` of each. Gives them."""
        begin = self.written.total()
        ids = range(begin, begin + count * PARTITIONS)
        values = [f'{{"id":"{each}"}}' for each in ids]
        produce(self.broker, f"{self.name}-rows", values, partition=[each % PARTITIONS for each in ids])
        self.written.update(values)
        return Counter(values)

    def visible(self) -> Counter[str]:
        """What a read_committed reader sees, and how often."""
        return Counter((each.value or b"").decode() for each in consume_all(self.broker, f"{self.name}-copies"))

    def wait_visible(self) -> None:
        """Waits until each row is there, once."""
        wait_until(lambda: self.visible() == self.written, f"{self.written.total()} rows are visible, and no other")

    def write_and_see(self) -> None:
        """It works: rows come, and then are there."""
        self.write()
        self.wait_visible()

    def lost_after(self, last: Counter[str]) -> Counter[str]:
        """Which rows are not there, and will not come: for the newest ones have come."""
        wait_until(lambda: last <= self.visible(), "the newest rows are visible")
        return self.written - self.visible()

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        """Epoch and path of those that are kept, oldest first."""
        found = self.cluster.client.checkpoints(self.job)
        return sorted((each.epoch, each.path) for each in found if each.path is not None)
