"""The session cluster that the flows of this folder run on, and their runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local.broker import EmbeddedBroker
from support.cluster import Cluster, running_cluster
from support.flow_cluster import Stage
from support.flow_runs import Staged
from support.flow_site import Flow


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers of two slots. Nobody is lost for being slow: a straight run writes no row twice."""
    with running_cluster(tmp_path_factory.mktemp("c")) as running:
        yield running


@pytest.fixture
def staged(flow: Flow, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Staged]:
    """Runs of a flow; what still runs at the end is canceled."""
    stages: list[Stage] = []

    def broker() -> EmbeddedBroker:
        running: EmbeddedBroker = request.getfixturevalue("broker")  # only for flows that need one
        return running

    def stage(seconds: float | None) -> Stage:
        stages.append(Stage(flow, cluster, broker, tmp_path / f"stage-{len(stages)}", seconds))
        return stages[-1]

    yield stage
    for each in stages:
        each.cancel()
