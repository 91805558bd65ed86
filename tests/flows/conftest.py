"""The session cluster that the flows of this folder run on, and their runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.session import Cluster, running_cluster
from support.flows.cluster import Stage
from support.flows.runs import Staged
from support.flows.site import Flow
from support.patience import CLUSTER_TIMES
from support.third_party_site import importable, third_party_path


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots in this process write hundreds of small files, which need not survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """The path of the gated connectors, which this process finds too."""
    path = third_party_path(tmp_path_factory.mktemp("site") / "site")
    with importable(path):
        yield path


@pytest.fixture(scope="package")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, site: list[Path], request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    """Two workers of four slots. Its parameter: how slots start, None as headrace does it of itself."""
    method: str | None = getattr(request, "param", None)
    times = CLUSTER_TIMES if method is None else {**CLUSTER_TIMES, "HEADRACE_START_METHOD": method}
    with running_cluster(tmp_path_factory.mktemp("c"), slots=4, python_path=site, times=times) as running:
        yield running


@pytest.fixture
def broker_if_needed(request: pytest.FixtureRequest) -> Callable[[], EmbeddedBroker]:
    """Starts the broker when it is called: most flows need none."""

    def broker() -> EmbeddedBroker:
        running: EmbeddedBroker = request.getfixturevalue("broker")
        return running

    return broker


@pytest.fixture
def staged(
    flow: Flow, cluster: Cluster, tmp_path: Path, broker_if_needed: Callable[[], EmbeddedBroker]
) -> Iterator[Staged]:
    """Runs of a flow; what still runs at the end is canceled."""
    stages: list[Stage] = []

    def stage() -> Stage:
        stages.append(Stage(flow, cluster, broker_if_needed, tmp_path / f"stage-{len(stages)}"))
        return stages[-1]

    yield stage
    for each in stages:
        each.cancel()
