"""An application whose ApplicationMaster is in the test's process: YARN calls it unmanaged, and treats it as any other.

Its containers are processes of the nodes. Drivers of one application share the ApplicationMaster, as those of a
coordinator's terms do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from headrace.core.errors import ExternalError
from headrace.resources.driver import ResourceDriver
from headrace.resources.worker_order import WorkerOrder
from headrace.resources.yarn import WorkerContainers as WorkerDriver
from headrace.yarn.client import APPLICATION_TYPE, YarnClient
from headrace.yarn.container import FILE_SECRET, TOKEN
from headrace.yarn.conversions import java_launch, java_size
from headrace.yarn.jvm import JvmConfig, find_hadoop_client, settings_for
from headrace.yarn.master.allocation import HeldPhase
from headrace.yarn.master.application_master import ApplicationMaster, MasterConfig
from headrace.yarn.master.link import MasterAddress, WorkerContainers
from headrace.yarn.records import ContainerSize, Credentials, FinalStatus, Launch
from support.patience import CLUSTER_TIMES, WAIT_SECONDS
from support.processes.running import wait_until
from support.yarn.cluster import Yarn, containers_below

NOWHERE = "127.0.0.1:1"
SIZE = ContainerSize(512, 1)
PLACE = MasterAddress("127.0.0.1", 1, "http://127.0.0.1:2")


class UnmanagedApplication:
    """One application. Its workers dial a coordinator that does not answer."""

    def __init__(self, yarn: Yarn, client: YarnClient, application: str, folder: Path) -> None:
        self.yarn = yarn
        self.client = client
        self.application = application
        self.overs: list[str] = []
        self._folder = folder
        environment = {**os.environ, **yarn.variables, "HADOOP_TOKEN_FILE_LOCATION": str(folder / "tokens")}
        jvm = JvmConfig(find_hadoop_client(environment), folder / "jvm", environment, settings_for(WAIT_SECONDS))
        containers = WorkerContainers(SIZE, priority=1)
        credentials = Credentials({f"{FILE_SECRET}{TOKEN}": b"a token"})
        config = MasterConfig(jvm, containers, lambda _node: credentials)
        self.master = ApplicationMaster(config, self.overs.append)

    def start(self) -> None:
        """Registers it."""
        self.master.start()
        self.master.register(PLACE, patience_s=WAIT_SECONDS)

    def driver(self, *, fails: bool = False) -> ResourceDriver:
        """fails: its workers have no token."""
        order = WorkerOrder(NOWHERE, 1, "127.0.0.1", Path("none" if fails else "home/secrets/token"))

        def launch(worker: str) -> Launch:
            return Launch(_command(order.arguments(worker)), (), dict(CLUSTER_TIMES))

        return WorkerDriver(self.master, SIZE, launch)

    def work(self) -> None:
        """The nodes do."""

    def kill(self, worker: str) -> None:
        """Ends the worker's process, which begins when its node has made the container's folder."""

        def found() -> list[psutil.Process]:
            return [each for each in self._workers() if worker in each.cmdline()]

        wait_until(lambda: bool(found()), f"{worker} has a process")
        for process in found():
            process.kill()

    def refuse(self) -> None:
        """The application is killed, as an administrator does."""
        self.client.kill(self.application)
        wait_until(lambda: bool(self.overs), "the ApplicationMaster has seen its end")

    def processes(self) -> int:
        """Workers that run, or will."""
        with suppress(ExternalError):
            held = [each for each in self.master.standing().held if each.phase is not HeldPhase.ENDED]
            return max(len(held), len(self._workers()))
        return len(self._workers())

    def finish(self) -> None:
        """Ends the application, unless it has ended."""
        with suppress(ExternalError):
            self.master.finish(FinalStatus.SUCCEEDED, "the test is over", None)
        self.master.close()

    def _workers(self) -> list[psutil.Process]:
        found = []
        for process in containers_below(self.yarn.folder):
            with suppress(psutil.NoSuchProcess):
                command = process.cmdline()
                if "headrace-worker" in command and self.application in process.cwd():
                    found.append(process)
        return found


def _command(arguments: Sequence[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "headrace.yarn.container", "headrace", *arguments)


@contextmanager
def unmanaged_application(yarn: Yarn, client: YarnClient, folder: Path) -> Iterator[UnmanagedApplication]:
    """Submits it; at the end it is killed, if it still is there."""
    application = _submitted(client)
    _write_token(client, application, folder)
    made = UnmanagedApplication(yarn, client, application, folder)
    try:
        made.start()
        yield made
    finally:
        made.finish()
        client.kill(application)


def _submitted(client: YarnClient) -> str:
    created = client.create()
    context: Any = created._context
    context.setUnmanagedAM(True)
    context.setApplicationType(APPLICATION_TYPE)
    context.setApplicationName("unmanaged")
    context.setResource(java_size(client.jvm, SIZE))
    context.setMaxAppAttempts(1)
    context.setAMContainerSpec(java_launch(client.jvm, Launch(("true",)), None))
    created._client.submitApplication(context)
    wait_until(lambda: client.report(created.application).state == "ACCEPTED", "the application is accepted")
    return created.application


def _write_token(client: YarnClient, application: str, folder: Path) -> None:
    """The token by which the ResourceManager knows its ApplicationMaster, which YARN gives a managed one in a file."""
    java: Any = client.jvm.java
    identity = client.jvm.records.ApplicationId.fromString(application)
    token: list[Any] = []

    def is_there() -> bool:
        token[:] = [client._client.getAMRMToken(identity)]
        return token[0] is not None

    wait_until(is_there, "its token is there")
    credentials = java.org.apache.hadoop.security.Credentials()
    credentials.addToken(token[0].getService(), token[0])
    path = java.org.apache.hadoop.fs.Path((folder / "tokens").as_uri())
    credentials.writeTokenStorageFile(path, client.jvm.conf)
