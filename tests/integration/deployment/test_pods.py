"""The deployment suite on pods of two nodes. Five scenarios are in the commit tier."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from _pytest.mark import ParameterSet

from headrace_dev.broker import EmbeddedBroker
from support.deployed.deployment import Deployed, Launch, Mode, deployed
from support.deployed.on_pods import PodsDeployment
from support.deployed.scenarios import (
    OF_A_PROGRAM,
    OF_ITS_OWN,
    ON_A_SESSION,
    WITH_SHORT_LEASES,
    Scenario,
    canceled_and_gone,
    drained_and_gone,
    leader_killed,
    rescaled,
    savepoint,
    worker_drained,
    worker_killed,
)
from support.kafka.broker import broker_config
from support.kubernetes.nodes.cluster import NodeCluster, node_cluster
from support.kubernetes.pods.coordinator_account import make_account
from support.patience import BROKER_SESSION

pytestmark = pytest.mark.broker
WITH_EACH_COMMIT: Collection[Scenario] = {leader_killed, rescaled, savepoint, worker_drained, worker_killed}


def in_tiers(scenarios: Sequence[Scenario]) -> list[ParameterSet]:
    """The others belong to the full tier."""
    return [
        pytest.param(each, marks=() if each in WITH_EACH_COMMIT else pytest.mark.full, id=each.__name__)
        for each in scenarios
    ]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A cluster with two nodes."""
    with node_cluster(tmp_path_factory.mktemp("n"), nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def broker_here(nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Listens where pods reach it, and this test too."""
    config = broker_config(tmp_path_factory.mktemp("b") / "kafka", settings=BROKER_SESSION)
    with EmbeddedBroker(replace(config, host=nodes.here)) as running:
        yield running


@pytest.fixture(scope="module")
def launch(nodes: NodeCluster, broker_here: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    @contextmanager
    def launched(mode: Mode, *, short_leases: bool = False) -> Iterator[Deployed]:
        assert not short_leases, "a connection that breaks is enough here"
        with pytest.MonkeyPatch.context() as patch, nodes.namespace(mode) as namespace:
            for name, value in nodes.environment.items():
                # clients in this process
                patch.setenv(name, value)
            deployment = PodsDeployment(nodes, namespace, tmp_path_factory.mktemp("d"))
            make_account(deployment.cluster.connection, namespace)
            try:
                with deployed(deployment, broker_here, mode) as running:
                    yield running
            finally:
                deployment.end()

    return launched


@pytest.mark.parametrize("scenario", in_tiers([*WITH_SHORT_LEASES, *ON_A_SESSION]))
def test_on_a_session(scenario: Scenario, session: Deployed) -> None:
    scenario(session)


@pytest.mark.full
@pytest.mark.parametrize("scenario", [*OF_ITS_OWN, drained_and_gone])
def test_on_a_cluster_of_one_job(scenario: Scenario, own: Deployed) -> None:
    scenario(own)


@pytest.mark.full
@pytest.mark.parametrize("scenario", [*OF_A_PROGRAM, drained_and_gone])
def test_on_the_cluster_of_an_application(scenario: Scenario, application: Deployed) -> None:
    scenario(application)


@pytest.mark.full
def test_a_job_that_is_canceled(launch: Launch) -> None:
    with launch(Mode.PER_JOB) as running:
        canceled_and_gone(running)
