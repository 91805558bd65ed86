"""The session cluster that the flows of a module run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster import Cluster, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers of two slots."""
    with running_cluster(tmp_path_factory.mktemp("c")) as running:
        yield running
