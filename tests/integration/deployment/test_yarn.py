"""The deployment suite on containers of YARN: a ResourceManager and two NodeManagers, which are processes here."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_dev.broker import EmbeddedBroker
from support.deployed.deployment import Deployed, Mode, deployed
from support.deployed.on_yarn import YarnDeployment
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
from support.yarn.cluster import Yarn

pytestmark = [pytest.mark.full, pytest.mark.broker]


@contextmanager
def on_yarn(
    folder: Path, yarn: Yarn, broker: EmbeddedBroker, mode: Mode, times: Mapping[str, str] = CLUSTER_TIMES
) -> Iterator[Deployed]:
    # clusters of a name are one, and the file has several at the same time
    deployment = YarnDeployment(yarn, folder, f"{mode}-{secrets.token_hex(3)}", times)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in yarn.variables.items():
            # clients in this process
            patch.setenv(name, value)
        try:
            with deployed(deployment, broker, mode) as running:
                yield running
        finally:
            deployment.end()


@pytest.fixture(scope="module")
def session(yarn: Yarn, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_yarn(tmp_path_factory.mktemp("s") / "c", yarn, broker, Mode.SESSION) as running:
        yield running


@pytest.mark.parametrize("scenario", ON_A_SESSION)
def test_on_a_session(scenario: Scenario, session: Deployed) -> None:
    scenario(session)


def test_an_application_master_that_is_frozen(yarn: Yarn, broker: EmbeddedBroker, tmp_path: Path) -> None:
    with on_yarn(tmp_path / "c", yarn, broker, Mode.SESSION, SHORT_CLUSTER_LEASES) as running:
        leader_frozen(running)


@pytest.fixture(scope="module")
def own(yarn: Yarn, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_yarn(tmp_path_factory.mktemp("o") / "c", yarn, broker, Mode.PER_JOB) as running:
        yield running


@pytest.mark.parametrize("scenario", [*OF_ITS_OWN, drained_and_gone])
def test_on_an_application_of_one_job(scenario: Scenario, own: Deployed) -> None:
    scenario(own)


@pytest.fixture(scope="module")
def application(yarn: Yarn, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with on_yarn(tmp_path_factory.mktemp("a") / "c", yarn, broker, Mode.APPLICATION) as running:
        yield running


@pytest.mark.parametrize("scenario", [*OF_A_PROGRAM, drained_and_gone])
def test_on_an_application_of_a_program(scenario: Scenario, application: Deployed) -> None:
    scenario(application)


def test_a_job_that_is_canceled(yarn: Yarn, broker: EmbeddedBroker, tmp_path: Path) -> None:
    with on_yarn(tmp_path / "c", yarn, broker, Mode.PER_JOB) as running:
        canceled_and_gone(running)
