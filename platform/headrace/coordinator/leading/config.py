"""The configuration of a coordinator, where its workers come from, and the contract of a system that runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, assert_never

from headrace.client.discovery import token_file
from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.coordinator.store.shared_ledger import SharedLedger
from headrace.core.errors import UserError
from headrace.core.network.hosts import LOOPBACK, host_port, is_loopback
from headrace.core.settings import Home
from headrace.leadership.elector import Elector
from headrace.resources.driver import ResourceDriver, ResourceTarget
from headrace.resources.worker_order import WorkerOrder
from headrace.tls.files import TlsFiles


@dataclass(frozen=True, slots=True)
class ResourcesConfig:
    """The workers of a coordinator that makes them itself.

    target          where
    provisioning    how many
    worker_address  HOST:PORT at which they reach the control plane of the leader; None: as clients find the leader
    workers_file    what pods are made of (`resources.kubernetes.workers_file`)
    """

    target: ResourceTarget
    provisioning: ProvisioningConfig
    worker_address: str | None = None
    workers_file: Path | None = None


@dataclass(frozen=True, slots=True)
class OpenedResources:
    """A driver, and what the ids of its workers in a term begin with."""

    driver: ResourceDriver
    prefix: str


def open_resources(config: ResourcesConfig, home: Home, order: WorkerOrder, term: int) -> OpenedResources:
    """Opens the driver for workers that are started with this order. Raises UserError, ExternalError."""
    prefix = f"w{term}-"
    match config.target:
        case ResourceTarget.LOCAL:
            from headrace.resources.worker_processes import WorkerProcesses

            return OpenedResources(WorkerProcesses(home, order, worker_environment(os.environ)), prefix)
        case ResourceTarget.KUBERNETES:
            from headrace.kubernetes.connection import open_connection
            from headrace.resources.kubernetes.worker_pods import WorkerPods, read_workers_file

            if config.workers_file is None:
                raise UserError("--resources kubernetes needs --workers-file", remedy="give the file of the ConfigMap")
            workers = read_workers_file(config.workers_file)
            pods = WorkerPods(open_connection(os.environ), workers, order, term=term)
            return OpenedResources(pods, f"{workers.cluster}-{prefix}")
        case ResourceTarget.YARN:
            raise UserError(
                "containers of YARN belong to an application, and this coordinator is no ApplicationMaster",
                remedy="headrace cluster start --target yarn starts one",
            )
        case _:
            assert_never(config.target)


def listening_host(coordinator_host: str) -> str | None:
    """The address at which local workers listen: loopback beside a coordinator that nobody else reaches, else their
    choice."""
    return LOOPBACK if is_loopback(coordinator_host) else None


def worker_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of local workers: the coordinator's, without what names a coordinator, its role or a secret."""
    from headrace.client.discovery import COORDINATOR_VARIABLE
    from headrace.client.token_files import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

    left_out = {COORDINATOR_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE}
    return {name: value for name, value in own.items() if name not in left_out}


_WILDCARDS = {"0.0.0.0", "::", ""}


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """The configuration of a coordinator. Port 0 means any free port.

    token_file           file with the token of workers and clients. None: the shared ledger's, else the home's file,
                         created if it is missing
    metrics_token_file   file with the token for health and metrics. None: as for token_file
    tls                  TLS files of REST and of the control server. None: neither is encrypted
    election             URL of the election (`leadership.opening`). None: there is no other coordinator
    ledger               the shared ledger. None: it is in the home
    advertise            host name or address by which clients, workers and standbys reach this one. None: `host`
    resources            where workers come from. None: others start them
    """

    home: Path
    host: str = LOOPBACK
    port: int = 0
    grpc_port: int = 0
    token_file: Path | None = None
    metrics_token_file: Path | None = None
    tls: TlsFiles | None = None
    election: str | None = None
    ledger: SharedLedger | None = None
    advertise: str | None = None
    resources: ResourcesConfig | None = None

    def __post_init__(self) -> None:
        if self.election is not None and self.advertise is None and self.host in _WILDCARDS:
            raise UserError(
                f"a coordinator that listens at {self.host} has no address that it could publish",
                remedy="give --advertise HOST: the name by which other hosts reach this one",
            )

    @property
    def shown_token_file(self) -> Path:
        """The file with the token that this host's clients read."""
        return self.token_file or token_file(Home(self.home))

    def address(self, port: int) -> str:
        """HOST:PORT as others reach this coordinator."""
        return host_port(self.advertise or self.host, port)

    def url(self, port: int) -> str:
        """The URL of its REST API, as others reach it."""
        return self._url(self.address(port))

    def own_url(self, port: int) -> str:
        """The URL of its REST API on this host."""
        return self._url(host_port(self.host, port))

    def _url(self, address: str) -> str:
        return f"{'http' if self.tls is None else 'https'}://{address}"


class Hosting(Protocol):
    """A system that runs the coordinator itself, as the coordinator uses it: it elects the coordinator, and has its
    workers.

    On hosts and on Kubernetes a coordinator is one process among others, and needs a configuration only. An application
    of YARN *is* its coordinator (the ApplicationMaster): its live half belongs to the process, and outlives a term.
    """

    @property
    def worker_secrets(self) -> SharedSecrets:
        """Secrets that are replaced while workers run."""
        ...

    def elector(self) -> Elector:
        """Returns the elector of this coordinator."""
        ...

    def open_resources(self, order: WorkerOrder, term: int) -> OpenedResources:
        """Opens the driver for workers that are started with this order. Raises ExternalError."""
        ...

    def shutdown_requested(self) -> None:
        """A client has asked for the end of the whole cluster. Must not block."""
        ...
