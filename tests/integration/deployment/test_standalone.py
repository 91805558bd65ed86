"""The deployment suite on two hosts with a coordinator and a worker each. Clusters of a job are two homes here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.clusters.network_hosts import HERE, Network, running_network
from support.deployed.deployment import Deployed, Launch, Mode, deployed
from support.deployed.on_hosts import HOSTS, HostsDeployment
from support.deployed.scenarios import (
    OF_A_PROGRAM,
    OF_ITS_OWN,
    ON_A_SESSION,
    WITH_SHORT_LEASES,
    Scenario,
    canceled_and_gone,
    drained_and_gone,
)
from support.kafka.broker import broker_config
from support.patience import BROKER_SESSION, SHORT_STANDBY_LEASES, STANDBY_TIMES

pytestmark = [pytest.mark.full, pytest.mark.broker]


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with running_network(*HOSTS) as running:
        yield running


@pytest.fixture(scope="module")
def broker_here(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Listens where the hosts reach it."""
    config = broker_config(tmp_path_factory.mktemp("b") / "kafka", settings=BROKER_SESSION)
    with EmbeddedBroker(replace(config, host=network.address(HERE))) as running:
        yield running


@pytest.fixture(scope="module")
def launch(network: Network, broker_here: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    @contextmanager
    def launched(mode: Mode, *, short_leases: bool = False) -> Iterator[Deployed]:
        times = SHORT_STANDBY_LEASES if short_leases else STANDBY_TIMES
        deployment = HostsDeployment(tmp_path_factory.mktemp("d"), network, times)
        with pytest.MonkeyPatch.context() as patch:
            for variable in ("NO_PROXY", "no_proxy"):
                # clients in this process
                patch.setenv(variable, deployment.cluster.environment()[variable])
            try:
                with deployed(deployment, broker_here, mode) as running:
                    yield running
            finally:
                deployment.end()

    return launched


@pytest.mark.parametrize("scenario", ON_A_SESSION)
def test_on_a_session(scenario: Scenario, session: Deployed) -> None:
    scenario(session)


@pytest.mark.parametrize("scenario", WITH_SHORT_LEASES)
def test_of_silence(scenario: Scenario, strict: Deployed) -> None:
    scenario(strict)


@pytest.mark.parametrize("scenario", [*OF_ITS_OWN, drained_and_gone])
def test_on_a_cluster_of_one_job(scenario: Scenario, own: Deployed) -> None:
    scenario(own)


@pytest.mark.parametrize("scenario", [*OF_A_PROGRAM, drained_and_gone])
def test_on_the_cluster_of_an_application(scenario: Scenario, application: Deployed) -> None:
    scenario(application)


def test_a_job_that_is_canceled(launch: Launch) -> None:
    with launch(Mode.PER_JOB) as running:
        canceled_and_gone(running)
