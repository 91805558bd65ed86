"""Where a coordinator's workers come from: settings, and the resource driver that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.core.errors import UserError
from headrace.core.network.hosts import LOOPBACK, is_loopback
from headrace.core.settings import Home
from headrace.resources.driver import ResourceDriver, ResourceTarget
from headrace.resources.worker_order import WorkerOrder


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
