"""Resource drivers by the contract of `resources.driver`. The workers find no coordinator, which is nothing to a
driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from headrace.core.errors import ExternalError
from headrace.core.settings import Home
from headrace.resources.driver import ResourceDriver, WorkerPhase, WorkerReport
from headrace.resources.worker_order import WORKER_ROLE, WorkerOrder
from headrace.resources.worker_processes import WorkerProcesses
from support.clusters.session import Cluster
from support.kubernetes.pods.without_nodes import pods_without_nodes
from support.patience import CLUSTER_TIMES
from support.processes.running import wait_until
from support.yarn.unmanaged import unmanaged_application

pytestmark = pytest.mark.turns(3)

NOWHERE = "127.0.0.1:1"
"""The address of a coordinator that does not answer: workers dial it again and again."""


class System(Protocol):
    """The system below a driver, as its tests see it."""

    def driver(self, *, fails: bool = False) -> ResourceDriver:
        """Another driver of the same cluster. fails: its workers end as soon as they run."""
        ...

    def work(self) -> None:
        """Lets the system do what it has to do now."""
        ...

    def kill(self, worker: str) -> None:
        """Ends a worker's process as a crash does."""
        ...

    def refuse(self) -> None:
        """Lets the system refuse every start from now on."""
        ...

    def processes(self) -> int:
        """How many workers run or will."""
        ...


class Processes:
    """Processes of this host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cluster = Cluster(folder)
        (folder / "token").write_text("a token\n")

    def driver(self, *, fails: bool = False) -> ResourceDriver:
        order = WorkerOrder(NOWHERE, 1, "127.0.0.1", self._folder / ("none" if fails else "token"))
        environment = {**os.environ, **CLUSTER_TIMES, "TMPDIR": str(self._cluster.temporary)}
        return WorkerProcesses(Home(self._cluster.home), order, environment)

    def work(self) -> None:
        """They run by themselves."""

    def kill(self, worker: str) -> None:
        (pid,) = (pid for pid, line in self._cluster.processes(WORKER_ROLE).items() if f"--id {worker} " in line)
        os.kill(pid, signal.SIGKILL)

    def refuse(self) -> None:
        self._cluster.home.mkdir()
        (self._cluster.home / "workers").write_text("")

    def processes(self) -> int:
        return len(self._cluster.processes(WORKER_ROLE))


@pytest.fixture(params=["local", "kubernetes", "yarn"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    if request.param == "local":
        yield Processes(tmp_path)
        return
    if request.param == "yarn":
        yarn, client = (request.getfixturevalue(name) for name in ("yarn", "yarn_client"))
        with unmanaged_application(yarn, client, tmp_path) as application:
            yield application
        return
    with pods_without_nodes(request.getfixturevalue("kubernetes")) as pods:
        yield pods


@pytest.fixture
def driver(system: System) -> Iterator[ResourceDriver]:
    opened = system.driver()
    try:
        yield opened
    finally:
        for each in opened.workers():
            release(system, opened, each.worker)
        wait_no_process(system)
        opened.close()


def phase(driver: ResourceDriver, worker: str) -> WorkerPhase | None:
    """What is reported of it; None: nothing."""
    return next((each.phase for each in driver.workers() if each.worker == worker), None)


def wait_phase(system: System, driver: ResourceDriver, worker: str, wanted: WorkerPhase | None) -> None:
    def has_it() -> bool:
        system.work()
        return phase(driver, worker) is wanted

    wait_until(has_it, f"{worker} is {wanted}")


def release(system: System, driver: ResourceDriver, worker: str) -> None:
    """Releases it until nothing is left, as a cluster does."""

    def is_gone() -> bool:
        driver.release(worker)
        system.work()
        return phase(driver, worker) is None

    wait_until(is_gone, f"{worker} is gone")


def wait_no_process(system: System) -> None:
    # YARN's ResourceManager reports a released container as ended before its node, at the next heartbeat, ends it
    wait_until(lambda: not system.processes(), "no worker runs")


def test_a_worker_is_listed_once_start_has_returned(system: System, driver: ResourceDriver) -> None:
    assert driver.workers() == ()
    driver.start("w1-1")
    assert phase(driver, "w1-1") in {WorkerPhase.PENDING, WorkerPhase.RUNNING}
    wait_phase(system, driver, "w1-1", WorkerPhase.RUNNING)
    driver.start("w1-2")
    assert [each.worker for each in driver.workers()] == ["w1-1", "w1-2"]


def test_a_worker_is_started_once(system: System, driver: ResourceDriver) -> None:
    for _ in range(2):
        driver.start("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.RUNNING)
    assert system.processes() == 1


def test_the_next_driver_lists_the_same_workers(system: System, driver: ResourceDriver) -> None:
    driver.start("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.RUNNING)
    another = system.driver()
    assert another.workers() == (WorkerReport("w1-1", WorkerPhase.RUNNING),)
    another.start("w1-1")
    release(system, another, "w1-1")
    assert driver.workers() == ()
    another.close()


def test_a_worker_that_dies_is_listed_until_it_is_released(system: System, driver: ResourceDriver) -> None:
    driver.start("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.RUNNING)
    system.kill("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.ENDED)
    assert not system.processes(), "nothing restarts it"
    release(system, driver, "w1-1")


def test_a_worker_that_ends_by_itself_says_why(system: System, driver: ResourceDriver) -> None:
    without = system.driver(fails=True)
    without.start("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.ENDED)
    (report,) = driver.workers()
    assert report.reason
    without.close()


def test_a_release_ends_the_process(system: System, driver: ResourceDriver) -> None:
    driver.release("w1-1")  # there is none
    driver.start("w1-1")
    wait_phase(system, driver, "w1-1", WorkerPhase.RUNNING)
    release(system, driver, "w1-1")
    wait_no_process(system)


def test_a_start_that_the_system_refuses_says_why(system: System, driver: ResourceDriver) -> None:
    system.refuse()
    with pytest.raises(ExternalError) as caught:
        driver.start("w1-1")
    assert "w1-1" in caught.value.message
    assert driver.workers() == ()
