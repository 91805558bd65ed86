"""Publishes a share of staged rows to a topic, exactly once: in transactions that also commit the progress.

    open     register the share's name (ends an earlier publisher's transaction, and fences it) ─> read the marker
    write    rows ─> transaction ── full, or open too long ─> flush, marker, commit ─> rows ─> the next transaction
    finish   the last one

A transaction is short, so a share may have any size. Rows become visible to readers with isolation.level
read_committed, transaction by transaction, whatever the sink's `delivery` is. `publishing.marker` owns the marker and
its retention. The producer is confluent-kafka's own, which supports every kind of record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, TopicPartition

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.errors import DataError, ExternalError
from headrace.core.retry import Retries
from headrace_connectors.kafka.clients.client import translated
from headrace_connectors.kafka.config import (
    TRANSACTION_TIMEOUT_MIN_MS,
    KafkaSinkSettings,
    message_timeout_ms,
    transaction_settings,
)
from headrace_connectors.kafka.publishing.marker import MarkerGroup, marked, marker_refused, share_name
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.sink.record_sender import RecordSender
from headrace_connectors.kafka.sink.records import Records
from headrace_connectors.kafka.transactions.errors import REGISTRATION_BACKOFF

TRANSACTION_ROWS_MAX = 250_000
"""Most rows of one transaction: a crash of the publisher wastes at most this many."""
_OPEN_MAX_S = 10.0
_OPEN_PART_MAX = 0.25
"""A transaction is committed at the next row after 10 s, or after a quarter of its timeout."""
_MARKER_PATIENCE_S = 60.0
TRANSACTION_TIMEOUT_MAX_MS = 300_000
"""Longest time for which a dead publisher without a successor may block readers. Each transaction is far shorter."""
_SLICE_S = 2.0
MARK_PATIENCE_S = 30.0
"""Time limit for committing a marker. librdkafka may never return from that call if the group's coordinator went away
(its issues 5456 and 5511, open as of 2.16): then the client is abandoned for another one."""


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
        with _decided():
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
            with _decided():
                self._commit()
        self._share.require_whole(self._published)

    def close(self) -> None:
        """Aborts an open transaction. Idempotent."""
        self._producer.close()


@contextmanager
def _decided() -> Iterator[None]:
    """Adds to the error of a refused record that its row is decided: what the topic refuses is known only now."""
    try:
        yield
    except DataError as error:
        remedy = "these rows are decided: change the topic so that it accepts them, and run the same command again"
        raise DataError(error.message, remedy=f"{remedy}; {error.remedy}" if error.remedy else remedy) from error


class PublishingProducer(ClientProducer):
    """A producer under a transactional id; `begin_transaction`, `send` .., `commit`, and again.

    timeout_ms   of its transactions at the brokers
    """

    def __init__(self, config: KafkaSinkSettings, name: str) -> None:
        wanted_ms = min(config.transaction_timeout_ms, TRANSACTION_TIMEOUT_MAX_MS)
        self.timeout_ms = max(wanted_ms, TRANSACTION_TIMEOUT_MIN_MS)
        self._patience_s = message_timeout_ms(config.properties, self.timeout_ms) / 1000
        self._name = name
        self._stuck = False
        properties, held = transaction_settings(name, self.timeout_ms, config.properties)
        super().__init__(config.brokers, config.topic, properties, held=held)

    def register(self) -> None:
        """Ends the transaction that an earlier producer of the name left open, and fences that producer. Raises
        HeadraceError."""
        retries = Retries(REGISTRATION_BACKOFF, self._patience_s)
        while (error := self.init_transactions(_SLICE_S)) is not None:
            if not retries.pause():
                raise error

    def commit(self, marker: list[TopicPartition], group: object) -> None:
        """Waits until all records are acknowledged, and makes them and the marker visible together.

        After an error the outcome is unknown here: the next producer of the name determines it. Raises HeadraceError.
        """
        self.flush()
        self._mark(marker, group)
        self._end()
        self._in_transaction = False

    def _mark(self, marker: list[TopicPartition], group: object) -> None:
        producer, outcome = self._producer, list[KafkaError | None]()

        def send() -> None:
            outcome.append(self._outcome(lambda: producer.send_offsets_to_transaction(marker, group, MARK_PATIENCE_S)))

        # librdkafka does not honour the call's time limit, so it runs in a thread that can be abandoned
        thread = threading.Thread(target=send, name=f"mark-{self._name}", daemon=True)
        thread.start()
        thread.join(MARK_PATIENCE_S)
        if thread.is_alive():
            self._stuck = True
            raise ExternalError(
                f"Kafka at {self._brokers} accepted no marker of transaction {self._name} within "
                f"{MARK_PATIENCE_S:.0f} s",
                remedy="nothing of the transaction becomes visible; the next publisher continues after the last "
                "committed transaction",
                retry=True,
            )
        (error,) = outcome
        if error is not None:
            self._serve(0)
            self._raise_if_failed()
            raise marker_refused(error, self._brokers)

    def close(self) -> None:
        """As `ClientProducer.close`; a stuck client is released when its call returns, or with the process."""
        if not self._stuck:
            super().close()
        elif not self._closed:
            self._release()

    def _end(self) -> None:
        """Commits, and repeats the call until it is done: the client resumes the call where the previous one left
        it."""
        deadline = time.monotonic() + self._patience_s
        while (error := self._outcome(lambda: self._producer.commit_transaction(_SLICE_S))) is not None:
            self._serve(0)
            self._raise_if_failed()
            if not (error.retriable() or error.code() == KafkaError._TIMED_OUT) or error.txn_requires_abort():
                raise translated(error, self._brokers)
            if time.monotonic() >= deadline:
                raise ExternalError(
                    f"transaction {self._name} could not be committed within {self._patience_s:.0f} s: {error.str()}",
                    remedy=f"check the brokers at {self._brokers}; visible rows are not written again",
                    retry=True,
                )
