"""Writes the flights to a topic from a thread of its own, at once or paced as a year in a number of seconds.

Not a data path of the engine: it plays the airports, which report one flight at a time. The client's queue bounds the
records to send. `fill` fills the sample topic of `headrace kafka up --sample`: one that has exactly the sample is kept;
another topic with records is never changed.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.core.errors import ExternalError, UserError, did_you_mean
from headrace.local.topics.topics import client_settings, create_topic, list_topics, offset_ranges, translated
from headrace_dev.demo.flights import AIRPORTS, FlightLog, load_flights

_BURST = 500
_TICK_SECONDS = 0.02
_DELIVER_MS = 30_000


class FlightFeed:
    """Call `start`, then read `sent` and `failure`; `stop` ends it early and returns when the thread has ended."""

    def __init__(self, brokers: str, topic: str, log: FlightLog, *, seconds: float) -> None:
        self._brokers, self._topic = brokers, topic
        self._messages = log.messages
        self._partitions = log.rows.get_column("partition").to_list()
        self._seconds = seconds
        self._stopped = threading.Event()
        self._refused: KafkaError | None = None
        self._thread = threading.Thread(target=self._guard, name="flight-feed", daemon=True)
        self.sent = 0
        self.failure: Exception | None = None

    def start(self) -> None:
        """Starts writing."""
        self._thread.start()

    def stop(self) -> None:
        """Stops writing. Does nothing if all is written."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wait(self) -> None:
        """Waits until the broker has every flight. Raises the failure of the thread."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _guard(self) -> None:
        try:
            self._write()
        except Exception as error:  # the shell of a thread: `wait` raises the failure
            self.failure = error

    def _write(self) -> None:
        producer = Producer(
            {
                **client_settings(self._brokers),
                "enable.idempotence": True,  # keeps the order of the flights
                "message.timeout.ms": _DELIVER_MS,
                "linger.ms": 5,
                "delivery.report.only.error": True,
            }
        )
        started = time.monotonic()
        while self.sent < len(self._messages) and not self._stopped.is_set():
            due = self._due(time.monotonic() - started)
            for at in range(self.sent, due):
                self._send(producer, at)
            self.sent = due
            producer.poll(0)
            if self._refused is not None:
                raise translated(KafkaException(self._refused), self._brokers, "a flight was not delivered")
            if self._seconds:
                self._stopped.wait(_TICK_SECONDS)
        if self._stopped.is_set():
            producer.purge()
        if producer.flush(_DELIVER_MS / 1000) and not self._stopped.is_set():
            raise ExternalError(f"the broker at {self._brokers} did not take all flights", retry=True)

    def _due(self, seconds: float) -> int:
        """Returns the number of flights to send by now; without a pace in bursts, so that `stop` is checked in
        between.
        """
        total = len(self._messages)
        if not self._seconds:
            return min(total, self.sent + _BURST)
        return max(self.sent, min(total, int(total * seconds / self._seconds)))

    def _send(self, producer: Producer, at: int) -> None:
        partition = self._partitions[at]
        while not self._stopped.is_set():
            try:
                producer.produce(
                    self._topic,
                    value=self._messages[at],
                    key=AIRPORTS[partition],
                    partition=partition,
                    on_delivery=self._delivered,
                )
            except BufferError:
                producer.poll(_TICK_SECONDS)
            else:
                return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and self._refused is None:
            self._refused = error


FLIGHTS = "flights"
"""The one sample, and the name of its topic."""


@dataclass(frozen=True, slots=True)
class FilledTopic:
    """A topic with its sample. `made`: this call created and filled it; False: it had the sample already."""

    topic: str
    partitions: int
    messages: int
    made: bool


def load_sample(name: str) -> FlightLog:
    """Returns the records of a sample, without a broker.

    Raises UserError for an unknown name, and if the package with the data is not installed.
    """
    if name != FLIGHTS:
        hint = did_you_mean(name, [FLIGHTS])
        raise UserError(f"there is no sample {name!r}", remedy=hint or f"samples: {FLIGHTS}")
    return load_flights()


def fill(brokers: str, log: FlightLog) -> FilledTopic:
    """Creates topic `flights` with one partition per airport, and writes all flights to it.

    Raises UserError if a topic of that name has other records, ExternalError if the broker refuses one.
    """
    flights = log.rows.height
    if any(topic.name == FLIGHTS for topic in list_topics(brokers)):
        _require_sample(brokers, log)
        return FilledTopic(FLIGHTS, len(AIRPORTS), flights, made=False)
    create_topic(brokers, FLIGHTS, partitions=len(AIRPORTS))
    feed = FlightFeed(brokers, FLIGHTS, log, seconds=0.0)
    feed.start()
    try:
        feed.wait()
    finally:
        feed.stop()
    return FilledTopic(FLIGHTS, len(AIRPORTS), flights, made=True)


def _require_sample(brokers: str, log: FlightLog) -> None:
    """Compares offsets, not records: an interrupted fill has fewer, and another topic rarely has the same number."""
    if offset_ranges(brokers, FLIGHTS) != {partition: (0, end) for partition, end in log.ends.items()}:
        raise UserError(
            f"topic {FLIGHTS!r} at {brokers} exists and does not have the sample",
            remedy=f"delete it first: headrace kafka delete {FLIGHTS}",
        )
