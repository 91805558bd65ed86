"""One YARN cluster with two nodes for each test process: it runs from the first test that needs it to the last one in a
row, for its servers cost an eighth of a processor while nothing runs there.

Applications, ledgers and staging folders keep its tests apart. A test that kills or restarts a server of YARN starts
its own cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.yarn.client import YarnClient
    from support.yarn.cluster import Yarn

_NAME = "yarn"


class _OwnYarn:
    """The cluster of this test process."""

    def __init__(self) -> None:
        self.files: frozenset[Path] = frozenset()
        """Those whose tests need it."""
        self._running: Yarn | None = None
        self._undo = ExitStack()

    def get(self, factory: pytest.TempPathFactory) -> Yarn:
        """Starts it unless it runs."""
        from support.yarn.cluster import yarn_cluster

        if self._running is None:
            self._running = self._undo.enter_context(yarn_cluster(factory.mktemp("y") / "c", nodes=2))
        return self._running

    def end(self) -> None:
        """Kills it, with all that runs there."""
        self._running = None
        self._undo.close()


_OWN = pytest.StashKey[_OwnYarn]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OWN] = _OwnYarn()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_OWN].files = frozenset(item.path for item in session.items if _needs_it(item))


def _needs_it(item: pytest.Item) -> bool:
    """Whether it has the fixture, or a parameter that chooses it."""
    chosen = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    # a parameter of another test may be one whose comparison is not a bool
    return _NAME in getattr(item, "fixturenames", ()) or any(isinstance(each, str) and each == _NAME for each in chosen)


# behind the teardown of fixtures, which may still stop what runs there
@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends it where the test process goes on with a file that does not need it."""
    own = item.config.stash[_OWN]
    if nextitem is not None and nextitem.path != item.path and nextitem.path not in own.files:
        own.end()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OWN in config.stash:
        config.stash[_OWN].end()


@pytest.fixture(scope="module")
def yarn(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Yarn:
    """A ResourceManager and two NodeManagers."""
    return pytestconfig.stash[_OWN].get(tmp_path_factory)


@pytest.fixture(scope="module")
def yarn_client(yarn: Yarn) -> Iterator[YarnClient]:
    """A client of that cluster."""
    from headrace.yarn.client import open_yarn_client

    with open_yarn_client({**os.environ, **yarn.variables}) as client:
        yield client
