"""The deployment suite on processes of one host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.deployed.deployment import Deployed, Launch, Mode, deployed
from support.deployed.on_a_host import HostDeployment
from support.deployed.scenarios import (
    OF_A_PROGRAM,
    OF_ITS_OWN,
    ON_A_SESSION,
    Scenario,
    canceled_and_gone,
    drained_and_gone,
    leader_frozen,
)
from support.patience import CLUSTER_TIMES, SHORT_CLUSTER_LEASES

pytestmark = [pytest.mark.full, pytest.mark.broker]


@pytest.fixture(scope="module")
def launch(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    @contextmanager
    def launched(mode: Mode, *, short_leases: bool = False) -> Iterator[Deployed]:
        times = SHORT_CLUSTER_LEASES if short_leases else CLUSTER_TIMES
        deployment = HostDeployment(tmp_path_factory.mktemp("d"), times)
        try:
            with deployed(deployment, broker, mode) as running:
                yield running
        finally:
            deployment.end()

    return launched


@pytest.mark.parametrize("scenario", ON_A_SESSION)
def test_on_a_session(scenario: Scenario, session: Deployed) -> None:
    scenario(session)


def test_a_leader_that_is_frozen(launch: Launch) -> None:
    with launch(Mode.SESSION, short_leases=True) as running:
        leader_frozen(running)


@pytest.mark.parametrize("scenario", [*OF_ITS_OWN, drained_and_gone])
def test_on_a_cluster_of_one_job(scenario: Scenario, own: Deployed) -> None:
    scenario(own)


@pytest.mark.parametrize("scenario", [*OF_A_PROGRAM, drained_and_gone])
def test_on_the_cluster_of_an_application(scenario: Scenario, application: Deployed) -> None:
    scenario(application)


def test_a_job_that_is_canceled(launch: Launch) -> None:
    with launch(Mode.PER_JOB) as running:
        canceled_and_gone(running)
