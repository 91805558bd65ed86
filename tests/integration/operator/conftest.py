"""The custom resource definitions in the control plane that all tests share; a cluster that is found by its Lease."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.cluster_secret import credentials_secret
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection
from headrace_dev.broker import EmbeddedBroker
from support.clusters.kafka_flow import Flow, running_flow
from support.clusters.standbys import StandbyCluster, standby_cluster
from support.kubernetes.control.kubernetes import Kubernetes
from support.operator.definitions import install_definitions
from support.operator.flow_job import CLUSTER_NAME, NAME


@pytest.fixture(scope="session")
def connection(kubernetes: Kubernetes) -> Iterator[Connection]:
    """With all rights, to an API server that has the definitions."""
    opened = kubernetes.connection()
    install_definitions(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("o")


@pytest.fixture(scope="module")
def operated(kubernetes: Kubernetes, connection: Connection) -> Iterator[str]:
    """A namespace."""
    with kubernetes.namespace("operated") as namespace:
        yield namespace


@pytest.fixture(scope="module")
def cluster(kubernetes: Kubernetes, connection: Connection, operated: str, folder: Path) -> Iterator[StandbyCluster]:
    """A coordinator that a Lease of the namespace elects, and workers; its token is in a Secret."""
    place = folder / "s"
    environment = {**kubernetes.environment, "PYTHONPATH": str(place)}
    with standby_cluster(
        place,
        f"kubernetes://{operated}/{CLUSTER_NAME}",
        ("--ledger", str(place / "shared")),
        coordinators=1,
        environment=environment,
    ) as running:
        token = running.token_file.read_text()
        secret = {"metadata": {"name": credentials_secret(CLUSTER_NAME)}, "stringData": {"token": token}}
        connection.create(Collection("v1", "secrets", operated), secret)
        yield running


@pytest.fixture(scope="module")
def flow(cluster: StandbyCluster, broker: EmbeddedBroker) -> Iterator[Flow]:
    with running_flow(cluster, broker, name=NAME, exactly_once=True) as running:
        yield running
