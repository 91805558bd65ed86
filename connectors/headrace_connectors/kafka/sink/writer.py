"""The at-least-once writer: one producer for its whole life; at a barrier every record must be acknowledged.

Must not know how rows are encoded, nor which producer sends them.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.producers import open_producer
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.refusals import open_refusals


class KafkaWriter:
    """Writes to one topic."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._queue = open_producer(config)
        self._sender = RecordSender(config, context)
        self._refusals = open_refusals(config, context.node)

    def write(self, batch: SinkBatch) -> None:
        """Queues rows; blocks while the bounded queue is full. Raises DataError for a row that Kafka refuses."""
        if len(batch):
            records = self._sender.records(batch)
            self._refusals.require(batch.rows, records)
            self._sender.send(self._queue, records)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every record is acknowledged; tolerates a broker restart."""
        self._queue.flush()
        return ()

    def close(self) -> None:
        """Discards records that were not flushed."""
        self._queue.close()
