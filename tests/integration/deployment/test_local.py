"""The deployment suite on processes of one host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.deployed.deployment import Deployed, Mode, deployed
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


@contextmanager
def on_a_host(folder: Path, broker: EmbeddedBroker, mode: Mode, *, short: bool = False) -> Iterator[Deployed]:
    deployment = HostDeployment(folder, SHORT_CLUSTER_LEASES if short else CLUSTER_TIMES)
    try:
        with deployed(deployment, broker, mode) as running:
            yield running
    finally:
        deployment.end()


@pytest.fixture(scope="module")
def session(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_a_host(tmp_path_factory.mktemp("s"), broker, Mode.SESSION) as running:
        yield running


@pytest.mark.parametrize("scenario", ON_A_SESSION)
def test_on_a_session(scenario: Scenario, session: Deployed) -> None:
    scenario(session)


def test_a_leader_that_is_frozen(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with on_a_host(tmp_path, broker, Mode.SESSION, short=True) as running:
        leader_frozen(running)


@pytest.fixture(scope="module")
def own(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_a_host(tmp_path_factory.mktemp("o"), broker, Mode.PER_JOB) as running:
        yield running


@pytest.mark.parametrize("scenario", [*OF_ITS_OWN, drained_and_gone])
def test_on_a_cluster_of_one_job(scenario: Scenario, own: Deployed) -> None:
    scenario(own)


@pytest.fixture(scope="module")
def application(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_a_host(tmp_path_factory.mktemp("a"), broker, Mode.APPLICATION) as running:
        yield running


@pytest.mark.parametrize("scenario", [*OF_A_PROGRAM, drained_and_gone])
def test_on_the_cluster_of_an_application(scenario: Scenario, application: Deployed) -> None:
    scenario(application)


def test_a_job_that_is_canceled(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with on_a_host(tmp_path, broker, Mode.PER_JOB) as running:
        canceled_and_gone(running)
