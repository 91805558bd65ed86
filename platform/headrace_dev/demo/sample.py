"""Sample topics for `headrace kafka up --sample`: a topic of a running broker, filled with real data.

A topic that has exactly the sample is kept; a topic with other records is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import UserError, did_you_mean
from headrace.local.topics.topics import create_topic, list_topics, offset_ranges
from headrace_dev.demo.feed import FlightFeed
from headrace_dev.demo.flights import AIRPORTS, FlightLog, load_flights

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
