"""The at-least-once writer: one producer for its whole life; at a barrier every record must be acknowledged.

Must not know how rows are encoded, nor which producer sends them.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.producers import open_producer
from headrace_connectors.kafka.sink.record_sender import AcceptedRecords, RecordSender


class KafkaWriter:
    """Writes to one topic."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._queue = open_producer(config)
        self._sender = RecordSender(config, context)
        self._accepted = AcceptedRecords(config, context, self._sender)

    def write(self, batch: SinkBatch) -> None:
        """Queues rows that Kafka does not refuse; blocks while the bounded queue is full."""
        records = self._accepted.of(batch) if len(batch) else None
        if records is not None:
            self._sender.send(self._queue, records)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every record is acknowledged; tolerates a broker restart."""
        self._queue.flush()
        return ()

    def close(self) -> None:
        """Discards records that were not flushed."""
        self._queue.close()
