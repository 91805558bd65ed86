"""The process of the ApplicationMaster: `python -m headrace.deployment.yarn.application_master headrace-coordinator`.

    container ──> coordinator (this process) ──> JVM            speaks with YARN
                                            ──> attendant       of one job or program
                                            ──> connector hosts

It ends in one of three ways: the application has its final status (the cluster was stopped, its job has ended), and is
unregistered; this attempt has failed, and YARN starts the next one; YARN kills it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.coordinator.leading.config import CoordinatorConfig, OpenedResources, ResourcesConfig
from headrace.coordinator.store.shared_ledger import SharedLedger
from headrace.core.errors import ExternalError, UserError
from headrace.deployment.yarn.application import (
    APPLICATION_FILE,
    KEYTAB_LINK,
    REQUEST_FILE,
    ApplicationFile,
    WorkKind,
    read_application_file,
    worker_launch,
)
from headrace.deployment.yarn.attendant import AttendantProcess
from headrace.deployment.yarn.secrets import (
    ClusterCertificates,
    SecretRenewal,
    TokenSource,
    WorkerCredentials,
    tls_files,
)
from headrace.leadership.elector import Elected, Elector, ElectorEvent, Leader
from headrace.leadership.published_leader import PublishedLeader, published_url
from headrace.resources.driver import ResourceTarget
from headrace.resources.worker_order import WorkerOrder
from headrace.resources.yarn import WorkerContainers
from headrace.yarn import container
from headrace.yarn.jvm import JvmConfig, find_hadoop_client, settings_for
from headrace.yarn.kerberos import KeytabLogin, with_tokens
from headrace.yarn.master.application_master import ApplicationMaster, MasterConfig
from headrace.yarn.master.link import MasterAddress
from headrace.yarn.master.link import WorkerContainers as ContainerRequests
from headrace.yarn.records import FinalStatus, Launch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.processes.spawning import Starter


REGISTER_SECONDS = 60.0
"""How long one try to register waits; the coordinator tries again."""


class AttemptElector:
    """The elector of an ApplicationMaster: YARN has elected it by starting it."""

    def __init__(self, master: ApplicationMaster, published: PublishedLeader) -> None:
        self._master = master
        self._published = published

    @property
    def lease_ms(self) -> int:
        """0: there is no standby."""
        return 0

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Is elected at once."""
        on_event(Elected())

    def is_elected(self) -> bool:
        """Yes: an attempt that is over has ended."""
        return True

    def announce(self, leader: Leader) -> None:
        """Registers at the ResourceManager, by which clients find this attempt, and publishes the address beside the
        ledger, by which workers do. Raises ExternalError."""
        control = urlsplit(f"//{leader.control}")
        host, port = str(control.hostname), int(control.port or 0)
        self._master.register(MasterAddress(host, port, leader.url), patience_s=REGISTER_SECONDS)
        self._published.publish(leader)

    def find(self) -> Leader | None:
        """The leader that was published last."""
        return self._published.find()

    def close(self) -> None:
        """Has nothing to give up."""


class Attempt:
    """An attempt of the ApplicationMaster, as the coordinator in this process uses it (`coordinator.leading.hosting`).

    YARN elects: it runs one attempt at a time. An attempt that was suspended while YARN replaced it is a zombie: the
    ledger rejects its decisions, and it ends with its next call to the ResourceManager.

    is_shut_down    a client has requested the end of the cluster
    worker_secrets  secrets that are replaced while workers run
    """

    def __init__(
        self,
        application: ApplicationFile,
        master: ApplicationMaster,
        published: PublishedLeader,
        worker_secrets: SharedSecrets,
    ) -> None:
        self._application = application
        self.worker_secrets = worker_secrets
        self._master = master
        self._published = published
        self.is_shut_down = False

    def elector(self) -> Elector:
        """The elector of this attempt."""
        return AttemptElector(self._master, self._published)

    def open_resources(self, order: WorkerOrder, term: int) -> OpenedResources:
        """The containers of the application, also those that an earlier attempt has started."""
        application = self._application

        def launch(worker: str) -> Launch:
            return worker_launch(application, order, worker)

        return OpenedResources(WorkerContainers(self._master, application.spec.workers.size, launch), f"w{term}-")

    def shutdown_requested(self) -> None:
        """Notes it."""
        self.is_shut_down = True


LOG = logging.getLogger("headrace.yarn")
RESOURCE_MANAGER_SECONDS = 900.0
"""How long one call waits for a ResourceManager that is away: YARN's own default."""
TERMINATED = 143


def main() -> None:
    """The process's entry point."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from headrace.coordinator.connector_host.connector_host import HOST_PROGRAMS
    from headrace.processes.template.client import own_starter

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        # the template is forked before this process has threads, because a fork copies locks that other threads hold
        starter = own_starter(HOST_PROGRAMS)
        try:
            run(read_application_file(Path(APPLICATION_FILE)), starter)
        finally:
            starter.close()
    except (UserError, ExternalError) as error:
        # YARN shows the end of this in the application's diagnostics
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the process's own stderr
        raise SystemExit(1) from error


def run(application: ApplicationFile, starter: Starter) -> None:
    """Runs one attempt. Returns once the application is unregistered. Raises UserError, ExternalError."""
    folder = container.secret_file(container.TOKEN).parent
    certificates = ClusterCertificates(folder, application.name) if application.spec.tls else None
    credentials = WorkerCredentials(
        worker_secrets(Path(os.environ[container.TOKEN_LOCATION]).read_bytes()), certificates
    )
    master = ApplicationMaster(master_config(application, os.environ, credentials))
    renewal = SecretRenewal(
        token_source(application, os.environ),
        certificates,
        credentials=credentials,
        nodes=master.nodes,
        host=os.environ[container.NODE_VARIABLE],
        folder=folder,
    )
    master.start()
    try:
        try:
            renewal.start()
            published = PublishedLeader(published_url(application.ledger))
            attempt = Attempt(application, master, published, renewal.shared)
            status = asyncio.run(_served(application, attempt, starter))
        except UserError as error:
            # the next attempt would fail in the same way: the description is wrong
            _fail(application, master, error)
            raise
        if status is None:
            # by a signal: YARN ends this attempt, or the whole application
            raise SystemExit(TERMINATED)
        LOG.info("the application ends: %s", status)
        master.finish(status, f"cluster {application.name}: {status.lower()}", application.staging)
    finally:
        renewal.close()
        master.close()


def _fail(application: ApplicationFile, master: ApplicationMaster, error: UserError) -> None:
    """Ends the application with an error. YARN accepts the end of registered attempts only."""
    master.register(MasterAddress(os.environ[container.NODE_VARIABLE], 0, ""), patience_s=RESOURCE_MANAGER_SECONDS)
    master.finish(FinalStatus.FAILED, str(error), application.staging)


async def _served(application: ApplicationFile, attempt: Attempt, starter: Starter) -> FinalStatus | None:
    """Runs the coordinator to its end. Returns the application's final status; None: it goes on."""
    from headrace.coordinator.main import serve

    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    def end() -> None:
        loop.call_soon_threadsafe(ended.set)

    command = attendant_command(application)
    attendant = None if command is None else AttendantProcess(command, end)
    if attendant is not None:
        attendant.start()
    try:
        await serve(coordinator_config(application, os.environ), ended, starter, attempt)
    finally:
        if attendant is not None:
            await asyncio.to_thread(attendant.close)
    attended = None if attendant is None else attendant.status
    return final_status(attended, application.work, is_shut_down=attempt.is_shut_down)


def final_status(attended: FinalStatus | None, work: WorkKind, *, is_shut_down: bool) -> FinalStatus | None:
    """The status of the application. attended: of its job or program, if that has ended; is_shut_down: a client has
    asked for its end. None: it goes on."""
    if attended is not None:
        return attended
    if not is_shut_down:
        return None
    return FinalStatus.SUCCEEDED if work is WorkKind.SESSION else FinalStatus.KILLED


def coordinator_config(application: ApplicationFile, environment: Mapping[str, str]) -> CoordinatorConfig:
    """The coordinator's. It listens at the address by which YARN names its node."""
    spec = application.spec
    workers = ResourcesConfig(ResourceTarget.YARN, spec.workers.provisioning, published_url(application.ledger))
    return CoordinatorConfig(
        home=container.container_home(),
        host=environment[container.NODE_VARIABLE],
        token_file=container.secret_file(container.TOKEN),
        tls=tls_files(container.secret_file(container.TOKEN).parent) if spec.tls else None,
        ledger=SharedLedger(application.ledger, container.secret_file(container.KEY), spec.checkpoints),
        resources=workers,
    )


def token_source(application: ApplicationFile, environment: Mapping[str, str]) -> TokenSource | None:
    """The source of new tokens; None: the container has only those of its credentials."""
    spec = application.spec
    if spec.kerberos is None:
        return None
    urls = with_tokens((application.staging, application.ledger, spec.checkpoints))
    login = KeytabLogin(spec.kerberos.principal, Path(KEYTAB_LINK))
    return TokenSource(login, urls, container.container_home() / "jvm-tokens", environment)


def master_config(
    application: ApplicationFile, environment: Mapping[str, str], credentials: WorkerCredentials
) -> MasterConfig:
    """The ApplicationMaster's."""
    workers = application.spec.workers
    hadoop = find_hadoop_client(environment)
    jvm = JvmConfig(hadoop, container.container_home() / "jvm", environment, settings_for(RESOURCE_MANAGER_SECONDS))
    containers = ContainerRequests(workers.size, workers.priority, workers.node_label)
    return MasterConfig(jvm, containers, credentials)


def worker_secrets(credentials: bytes) -> Mapping[str, bytes]:
    """The part of the ApplicationMaster's credentials for workers: not the keys of the ledger and of the authority."""
    named = {f"{container.FILE_SECRET}{container.TOKEN}", f"{container.FILE_SECRET}{container.AUTHORITY}"}
    return {
        alias: secret
        for alias, secret in container.secrets_of(credentials).items()
        if alias in named or alias.startswith(container.VARIABLE_SECRET)
    }


def attendant_command(application: ApplicationFile) -> list[str] | None:
    """The command of the attendant; None: the cluster serves no job of its own."""
    from headrace.deployment.yarn.attendant import ROLE

    if application.work is WorkKind.SESSION:
        return None
    is_job = application.work is WorkKind.JOB
    served = ("--request", REQUEST_FILE) if is_job else ("--program", str(application.program))
    return [
        *(sys.executable, "-m", "headrace.deployment.yarn.attendant", ROLE, *served),
        *("--election", published_url(application.ledger), "--linger-ms", str(application.spec.after_end_ms)),
    ]


if __name__ == "__main__":
    main()
