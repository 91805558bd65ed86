"""Fixtures and options for tests of every kind."""

import signal
from collections.abc import Iterator

import pytest

from headrace.core.concealing import conceal
from support.kafka.broker import own_broker
from support.kafka.clients import consumer_kind, producer_kind

__all__ = ["consumer_kind", "own_broker", "producer_kind"]

pytest_plugins = [
    "support.suite.garbage",
    "support.suite.parts",
    "support.suite.properties",
    "support.suite.scheduling",
    "support.suite.shared_broker",
    "support.suite.shared_hdfs",
    "support.suite.shared_kubernetes",
    "support.suite.shared_yarn",
    "support.suite.tally",
    "support.suite.tiers",
    "support.suite.traces",
    "support.suite.watermarks",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ours."""
    parser.addoption(
        "--rewrite-transcripts", action="store_true", help="write tests/transcripts anew, as the machine is now"
    )
    parser.addoption("--rewrite-goldens", action="store_true", help="write tests/flows/golden anew, from straight runs")
    parser.addoption("--stops", type=int, default=2, help="how often a job is stopped and taken up in a row")
    parser.addoption("--increments", type=int, default=12, help="increments of a followed pipeline that is killed")
    parser.addoption("--registry-url", help="of a schema registry, which conformance/test_registries asks as well")
    parser.addoption("--outage", type=float, default=12.0, help="seconds that no broker answers for")


def pytest_configure() -> None:
    """Has Ctrl-C interrupt, as some tests do themselves: a shell has its background jobs ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def signal_handlers_are_restored() -> Iterator[None]:
    """What a test changes would end the process, without a word, at a later test that interrupts itself."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    after = [signal.getsignal(number) for number in numbers]
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    assert after == before


@pytest.fixture(autouse=True)
def nothing_stays_hidden() -> Iterator[None]:
    """A pipeline that is loaded hides the values of its variables in the texts of this process: later tests have
    others."""
    yield
    conceal({})


@pytest.fixture
def stops(request: pytest.FixtureRequest) -> int:
    """How often a job is stopped and taken up in a row."""
    return int(request.config.getoption("--stops"))


@pytest.fixture
def increments(request: pytest.FixtureRequest) -> int:
    """Increments of a followed pipeline that is killed on its way."""
    return int(request.config.getoption("--increments"))


@pytest.fixture
def outage_s(request: pytest.FixtureRequest) -> float:
    """For how long no broker answers."""
    return float(request.config.getoption("--outage"))
