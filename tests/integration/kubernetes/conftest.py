"""A control plane of Kubernetes for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kubernetes.control_cluster import ControlCluster, control_cluster


@pytest.fixture(scope="package")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlCluster]:
    """One that nobody breaks."""
    with control_cluster(tmp_path_factory.mktemp("k")) as running:
        yield running
