"""Publishes a share of staged rows to a topic, exactly once: in transactions that also commit the progress.

    open     register the share's name (ends an earlier publisher's transaction, and fences it) ─> read the marker
    write    rows ─> transaction ── full, or open too long ─> flush, marker, commit ─> rows ─> the next transaction
    finish   the last one

A transaction is short, so a share may have any size. Rows become visible to readers with isolation.level
read_committed, transaction by transaction, whatever the sink's `delivery` is. `publishing.marker` owns the marker and
its retention.
"""

from __future__ import annotations

import time

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.publishing.marker import MarkerGroup, marked, share_name
from headrace_connectors.kafka.publishing.producer import PublishingProducer
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.records import Records

TRANSACTION_ROWS_MAX = 250_000
"""Most rows of one transaction: a crash of the publisher wastes at most this many."""
_OPEN_MAX_S = 10.0
_OPEN_PART_MAX = 0.25
"""A transaction is committed at the next row after 10 s, or after a quarter of its timeout."""
_MARKER_PATIENCE_S = 60.0


class KafkaPublisher:
    """`connect.publisher.Publisher` for Kafka. Opening it registers the name and reads the marker."""

    def __init__(
        self,
        config: KafkaSinkSettings,
        context: SinkContext,
        share: Share,
        *,
        transaction_rows_max: int = TRANSACTION_ROWS_MAX,
    ) -> None:
        self._topic, self._share, self._rows_max = config.topic, share, transaction_rows_max
        self._sender = RecordSender(config, context, transactional=True)
        self._producer = PublishingProducer(config, share_name(context))
        self._open_max_s = min(_OPEN_MAX_S, self._producer.timeout_ms / 1000 * _OPEN_PART_MAX)
        self._open_rows = 0
        self._opened_at = 0.0
        try:
            # fence first, then read: after that no earlier publisher can move the marker
            self._producer.register()
            group = MarkerGroup(config, context)
            try:
                self._group = group.metadata
                marker = group.read(_MARKER_PATIENCE_S)
            finally:
                group.close()
            self._published = 0 if marker is None else marker.published(share)
        except BaseException:
            self._producer.close()
            raise

    @property
    def published(self) -> int:
        """Number of visible rows of the share."""
        return self._published

    def write(self, batch: SinkBatch) -> None:
        """Sends rows; commits whenever a transaction is full. After ExternalError nothing more may be written."""
        if not len(batch):
            return
        records = self._sender.records(batch)
        begin = 0
        while begin < len(records):
            part = records.slice(begin, self._rows_max - self._open_rows)
            self._send(part)
            begin += len(part)

    def _send(self, records: Records) -> None:
        if not self._open_rows:
            self._producer.begin_transaction()
            self._opened_at = time.monotonic()
        self._open_rows += len(records)
        self._sender.send(self._producer, records)
        if self._open_rows >= self._rows_max or time.monotonic() - self._opened_at >= self._open_max_s:
            self._commit()

    def _commit(self) -> None:
        rows = self._published + self._open_rows
        if rows > self._share.rows:
            raise self._share.error(rows)
        self._producer.commit(marked(self._topic, ShareMarker(self._share.epoch, rows, self._share.rows)), self._group)
        self._published, self._open_rows = rows, 0

    def finish(self) -> None:
        """Commits the last transaction."""
        if self._open_rows:
            self._commit()
        self._share.require_whole(self._published)

    def close(self) -> None:
        """Aborts an open transaction. Idempotent."""
        self._producer.close()
