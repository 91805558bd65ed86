"""One Kubernetes control plane for a whole run, started when the first test needs it; as `shared_broker`.

It takes 420 MB and 4 s of a processor to start, so test processes share it: namespaces keep their tests apart. A test
that kills or suspends a server of it starts its own. Everything of Kubernetes is imported when it is needed: each run
loads this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.suite import is_controller
from support.suite.answering_socket import Answer, asked
from support.suite.shared_server import SharedServer

if TYPE_CHECKING:
    from support.kubernetes.control.kubernetes import Credentials, Kubernetes

_ADDRESS = "kubernetes_socket"


class SharedKubernetes(SharedServer):
    """The cluster in the controller."""

    def __init__(self) -> None:
        super().__init__()
        self._credentials: Credentials | None = None

    def credentials(self) -> Credentials:
        """Starts the cluster at the first call."""
        from support.kubernetes.control.cluster import control_cluster

        with self._lock:
            if self._credentials is None:
                starting = control_cluster(self.folder / "kubernetes")
                self._credentials = self._undo.enter_context(starting).credentials
            return self._credentials

    def document(self) -> Answer:
        """An administrator's credentials."""
        return self.credentials().document()


_SHARED = pytest.StashKey[SharedKubernetes]()


def pytest_configure(config: pytest.Config) -> None:
    if is_controller(config):
        config.stash[_SHARED] = SharedKubernetes()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tells a test process of pytest-xdist, before it starts, where to ask."""
    node.workerinput[_ADDRESS] = node.config.stash[_SHARED].listen()  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _SHARED in config.stash:
        config.stash[_SHARED].end()


@pytest.fixture(scope="session")
def kubernetes(pytestconfig: pytest.Config) -> Iterator[Kubernetes]:
    """The run's control plane, which all test processes share; no pod runs there. Tests use `namespace`."""
    from support.kubernetes.control.kubernetes import Credentials, Kubernetes
    from support.kubernetes.programs.recipe import CONTROL
    from support.kubernetes.programs.requirements import require_binaries

    binaries = require_binaries(CONTROL)
    if is_controller(pytestconfig):
        credentials = pytestconfig.stash[_SHARED].credentials()
    else:
        credentials = Credentials.of(asked(pytestconfig.workerinput[_ADDRESS]))  # type: ignore[attr-defined]
    shared = Kubernetes(binaries, credentials)
    yield shared
    shared.close()


@pytest.fixture
def namespace(kubernetes: Kubernetes) -> Iterator[str]:
    """A new namespace of the shared control plane."""
    with kubernetes.namespace() as name:
        yield name
