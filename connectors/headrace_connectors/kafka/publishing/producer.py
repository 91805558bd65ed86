"""The producer of a publisher: it fills one transaction after another, adds the progress marker, and commits. Knows
nothing of shares. It sends with confluent-kafka's own producer, which supports every kind of record."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, TopicPartition

from headrace.core.errors import ExternalError
from headrace.core.retry import Retries
from headrace_connectors.kafka.clients.client import translated
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.publishing.marker import marker_refused
from headrace_connectors.kafka.sink.client_producer import ClientProducer
from headrace_connectors.kafka.transactions.errors import REGISTRATION_BACKOFF
from headrace_connectors.kafka.transactions.transaction_settings import (
    TRANSACTION_TIMEOUT_MIN_MS,
    message_timeout_ms,
    transaction_settings,
)

TRANSACTION_TIMEOUT_MAX_MS = 300_000
"""Longest time for which a dead publisher without a successor may block readers. Each transaction is far shorter."""
_SLICE_S = 2.0
MARK_PATIENCE_S = 30.0
"""Time limit for committing a marker. librdkafka may never return from that call if the group's coordinator went away
(its issues 5456 and 5511, open as of 2.16): then the client is abandoned for another one."""


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
