"""One HDFS for a whole run, started when the first test needs it; as `shared_broker`.

It takes 400 MB and 10 s of a processor to start, so test processes share it: folders keep their tests apart. A test
that kills or suspends a server of it, or changes a setting, starts its own. Everything of HDFS is imported when it is
needed: each run loads this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.suite import is_controller
from support.suite.answering_socket import Answer, asked
from support.suite.shared_server import SharedServer

if TYPE_CHECKING:
    from support.hdfs.cluster import Hdfs

_ADDRESS = "hdfs_socket"


class SharedHdfs(SharedServer):
    """The servers, children of the controller."""

    def __init__(self) -> None:
        super().__init__()
        self._hdfs: Hdfs | None = None

    def hdfs(self) -> Hdfs:
        """Starts the servers at the first call."""
        from support.hdfs.cluster import hdfs_cluster

        with self._lock:
            if self._hdfs is None:
                self._hdfs = self._undo.enter_context(hdfs_cluster(self.folder / "hdfs"))
            return self._hdfs

    def document(self) -> Answer:
        """Of the servers."""
        return self.hdfs().document()


_SHARED = pytest.StashKey[SharedHdfs]()


def pytest_configure(config: pytest.Config) -> None:
    if is_controller(config):
        config.stash[_SHARED] = SharedHdfs()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tells a test process of pytest-xdist, before it starts, where to ask."""
    node.workerinput[_ADDRESS] = node.config.stash[_SHARED].listen()  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SHARED in config.stash:
        config.stash[_SHARED].end()


@pytest.fixture(scope="session")
def hdfs(pytestconfig: pytest.Config) -> Hdfs:
    """The run's HDFS, which all test processes share. Tests use folders of their own."""
    from support.hdfs.cluster import Hdfs

    if is_controller(pytestconfig):
        return pytestconfig.stash[_SHARED].hdfs()
    return Hdfs.of(asked(pytestconfig.workerinput[_ADDRESS]))  # type: ignore[attr-defined]
