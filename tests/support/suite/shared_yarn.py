"""One YARN cluster with two nodes for each test process, started when the first test needs it.

Applications, ledgers and staging folders keep its tests apart. A test that kills or restarts a server of YARN starts
its own cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.yarn.client import YarnClient
    from support.yarn.cluster import Yarn


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A ResourceManager and two NodeManagers."""
    from support.yarn.cluster import yarn_cluster

    with yarn_cluster(tmp_path_factory.mktemp("y") / "c", nodes=2) as running:
        yield running


@pytest.fixture(scope="session")
def yarn_client(yarn: Yarn) -> Iterator[YarnClient]:
    """A client of that cluster."""
    from headrace.yarn.client import open_yarn_client

    with open_yarn_client({**os.environ, **yarn.variables}) as client:
        yield client
