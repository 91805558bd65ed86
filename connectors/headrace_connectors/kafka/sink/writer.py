"""The at-least-once writer: one producer for its whole life; at a barrier every record must be acknowledged.

Knows nothing of encoding and of producers.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.batch_sender import BatchSender
from headrace_connectors.kafka.sink.producers import open_producer
from headrace_connectors.kafka.sink.record_maker import RecordMaker


class KafkaWriter:
    """Writes to one topic."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._queue = open_producer(config)
        self._make = RecordMaker(config, context)
        self._sender = BatchSender(context, config.properties)

    def write(self, batch: SinkBatch) -> None:
        """Queues rows; blocks while the bounded queue is full."""
        if len(batch):
            self._sender.send(self._queue, self._make(batch))

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every record is acknowledged; tolerates a broker restart."""
        self._queue.flush()
        return ()

    def close(self) -> None:
        """Discards records that were not flushed."""
        self._queue.close()
