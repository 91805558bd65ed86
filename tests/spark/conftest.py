"""Fixtures of the tests on Spark. `spark`: a local session, which the modules of one test process share."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.spark.settings import spark_settings
from support.spark.shared_session import SharedSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT_S = 1_800
"""For a test of this folder that says nothing else: it may start Spark, a broker and a cluster on a busy machine."""
SHARED = SharedSpark()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests of this folder their time, and puts modules that share the session one behind the other."""
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(HERE)]
    own = [items[place] for place in places]
    for item in own:
        # pyspark leaves sockets to the garbage collector, which runs in any of these tests
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
    sharing = {item.path for item in own if "spark" in getattr(item, "fixturenames", ())}
    for place, item in zip(places, sorted(own, key=lambda item: item.path not in sharing), strict=True):
        items[place] = item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Ends the shared session when the next module of this process does not use it.

    That module may start a Spark of its own in this process; outside of this folder no test expects pyspark's sockets.
    """
    result = yield
    if nextitem is None or not _shares(nextitem):
        SHARED.end()
    return result


def _shares(item: pytest.Item) -> bool:
    same_module = (other for other in item.session.items if other.path == item.path)
    return any("spark" in getattr(other, "fixturenames", ()) for other in same_module)


@pytest.fixture(autouse=True)
def signal_handlers_are_restored() -> Iterator[None]:
    """pyspark takes SIGINT over for each session that it starts, and keeps it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module", autouse=True)
def settings_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For this module's sessions and those of commands that it starts."""
    with spark_settings(tmp_path_factory.mktemp("settings") / "conf"):
        yield


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The shared session: two cores of this host."""
    return SHARED.session(tmp_path_factory.mktemp("spark"))
