"""Hands records to a producer: which partition takes rows without a key, and when not to linger.

Outlives producers: a transactional writer has one a transaction, and its topic keeps its partitions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.kafka.clients.client import LOG
from headrace_connectors.kafka.sink.records import RecordQueue, Records

SPREAD_ROWS = 4_000
"""Rows without a key go to one partition for as long as this, then to the next: full batches, even partitions."""
LOW_RATE_S = 0.003
"""Batches further apart than this are sent at once: at such a rate lingering costs latency and saves nothing."""
PARTITIONS_AGE_S = 300.0


class BatchSender:
    """Sends to one topic, for one writer.

    transactional   rows are seen when a checkpoint commits them: there is no hurry
    """

    def __init__(self, context: SinkContext, properties: Mapping[str, str], *, transactional: bool = False) -> None:
        self._node = context.node
        # whoever chooses how long to linger has chosen between latency and load
        self._hurries = not transactional and not {"linger.ms", "queue.buffering.max.ms"} & set(properties)
        self._sent_at = 0.0
        self._partitions = 0
        self._partitions_due = 0.0
        # subtasks begin at different partitions, so that few rows do not all meet in one
        self._turn = context.subtask

    def send(self, queue: RecordQueue, records: Records) -> None:
        """Queues records; blocks while the bounded queue is full."""
        self._refresh_partitions(queue, are_needed=records.keys is None)
        if records.keys is not None:
            queue.send_by_key(records, self._partitions)
        else:
            self._spread(queue, records)
        now = time.monotonic()
        if self._hurries and now - self._sent_at >= LOW_RATE_S:
            queue.hurry()
            now = time.monotonic()
        self._sent_at = now

    def _spread(self, queue: RecordQueue, records: Records) -> None:
        for begin in range(0, len(records), SPREAD_ROWS):
            self._turn = (self._turn + 1) % self._partitions
            queue.send(records.slice(begin, SPREAD_ROWS), self._turn)

    def _refresh_partitions(self, queue: RecordQueue, *, are_needed: bool) -> None:
        """Partitions may be added to a topic; a broker that is away for a moment changes nothing."""
        now = time.monotonic()
        if now < self._partitions_due:
            return
        self._partitions_due = now + PARTITIONS_AGE_S
        try:
            self._partitions = queue.partitions()
        except ExternalError as error:
            if are_needed and not self._partitions:
                raise
            LOG.info("%s keeps %d partitions: %s", self._node, self._partitions, error)
