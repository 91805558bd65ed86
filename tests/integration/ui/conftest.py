"""A cluster, flights that come all the while, the page of the cluster, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from headrace_dev.broker import EmbeddedBroker
from headrace_dev.demo.feed import FlightFeed
from headrace_dev.demo.flights import AIRPORTS, load_flights
from support.clusters.session import Cluster, running_cluster
from support.kafka.broker import create_topic, unique_topic
from support.page_browser import browser as running_browser
from support.page_browser import serving_page
from support.repository import ROOT

FLIGHTS, SECONDS = 40_000, 400.0
"""A hundred a second, for longer than the tests take."""


@dataclass(frozen=True)
class Flights:
    """The pipeline of the example over topics of its own, which are fed."""

    name: str
    text: str


def submitted(cluster: Cluster, name: str, text: str) -> str:
    """Submits a pipeline by the command line; returns the job's id."""
    file = cluster.folder / f"{name}.yaml"
    file.write_text(text)
    done = cluster.headrace("submit", str(file), "--json")
    return str(done.json["job_id"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One worker of two slots."""
    with running_cluster(tmp_path_factory.mktemp("c"), workers=1, slots=2) as running:
        yield running


@pytest.fixture(scope="module")
def flights(broker: EmbeddedBroker) -> Iterator[Flights]:
    """The example, with checkpoints every second; its input goes on to the module's end."""
    topic = create_topic(broker, unique_topic("flights"), partitions=len(AIRPORTS))
    text = (ROOT / "examples" / "flights.yaml").read_text()
    for name in ("topic: flights-late", "topic: delays", "topic: flights"):
        text = text.replace(f"{name}\n", f"{name.replace('flights', topic).replace('delays', f'{topic}-delays')}\n")
    text = text.replace("${KAFKA_BROKERS:-localhost:9092}", f'"{broker.bootstrap}"')
    text = text.replace("name: flight-delays\n", "name: flight-delays\ncheckpoint: {interval: 1s}\n")
    feed = FlightFeed(broker.bootstrap, topic, load_flights(FLIGHTS), seconds=SECONDS)
    feed.start()
    try:
        yield Flights("flight-delays", text)
    finally:
        feed.stop()
    assert feed.failure is None


@pytest.fixture(scope="module")
def page_url(cluster: Cluster) -> Iterator[str]:
    """What `headrace ui` has printed."""
    with serving_page(cluster) as (_, url):
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser; each visitor has a profile of its own."""
    with running_browser() as running:
        yield running
