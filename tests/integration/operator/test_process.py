"""The operator's process in a Kubernetes of its own: without definitions, in all namespaces, with an API server that
hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from headrace.kubernetes.connection import Connection
from headrace.kubernetes_operator.resources.kinds import CLUSTER
from support.kubernetes.control.cluster import API_SERVER, ControlCluster, control_cluster
from support.operator.account import apply_operator, bind_everywhere, operator_kubeconfig
from support.operator.definitions import install_definitions
from support.operator.operators import Operators, Resources
from support.patience import SHORT_STANDBY_LEASES

pytestmark = pytest.mark.turns(3, of="files")

SPEC = {"image": "headrace:1", "ledger": "s3://bucket/flights"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlCluster]:
    with control_cluster(tmp_path_factory.mktemp("k")) as running:
        yield running


@pytest.fixture(scope="module")
def connection(own: ControlCluster) -> Iterator[Connection]:
    opened = own.connection()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def replicas(
    own: ControlCluster, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operators]:
    folder = tmp_path_factory.mktemp("o")
    apply_operator(connection, "default")
    bind_everywhere(connection, "default")
    made = Operators("default", folder, operator_kubeconfig(own, "default", folder), watched=())
    yield made
    made.close()


def test_without_definitions_it_says_what_is_missing(replicas: Operators) -> None:
    replicas.start("early")
    assert replicas.ended("early") == 1
    assert "does not serve headraceclusters of headrace.dev/v1alpha1" in replicas.logs()
    assert "install the custom resource definition" in replicas.logs()


def test_resources_of_all_namespaces_are_handled(
    own: ControlCluster, connection: Connection, replicas: Operators
) -> None:
    install_definitions(connection)
    with ExitStack() as namespaces:
        places = [namespaces.enter_context(own.namespace()) for _ in range(2)]
        before, after = (Resources(connection, place, replicas) for place in places)
        before.apply(CLUSTER, "flights", SPEC)
        replicas.start("o1")
        before.wait_status(CLUSTER, "flights", state="Starting")
        after.apply(CLUSTER, "flights", SPEC)
        after.wait_status(CLUSTER, "flights", state="Starting")
        for each in (before, after):
            each.delete(CLUSTER, "flights")
            each.wait_gone(CLUSTER, "flights")


def test_an_operator_that_loses_the_lease_ends_and_its_successor_goes_on(
    own: ControlCluster, connection: Connection, replicas: Operators
) -> None:
    assert replicas.end(replicas.wait_leader()) == 0
    replicas.start("o2", SHORT_STANDBY_LEASES)
    assert replicas.wait_leader() == "o2"
    with own.hung(API_SERVER):
        assert replicas.ended("o2") == 1
    assert "does not lead any more" in replicas.logs()
    replicas.start("o3")
    assert replicas.wait_leader() == "o3"
    resources = Resources(connection, "default", replicas)
    resources.apply(CLUSTER, "flights", SPEC)
    resources.wait_status(CLUSTER, "flights", state="Starting")
    resources.delete(CLUSTER, "flights")
    resources.wait_gone(CLUSTER, "flights")
