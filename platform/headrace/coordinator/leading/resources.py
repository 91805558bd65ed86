"""Where a coordinator's workers come from: settings, and the resource driver that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from headrace.coordinator.provisioning.config import ProvisioningConfig
from headrace.core.network.hosts import LOOPBACK, is_loopback
from headrace.core.settings import Home
from headrace.resources.driver import ResourceDriver
from headrace.resources.worker_order import WorkerOrder


class ResourceTarget(StrEnum):
    """The system that has the workers. LOCAL: processes of the coordinator's host."""

    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class ResourcesConfig:
    """The workers of a coordinator that makes them itself. target: where; provisioning: how many."""

    target: ResourceTarget
    provisioning: ProvisioningConfig


def open_driver(config: ResourcesConfig, home: Home, order: WorkerOrder) -> ResourceDriver:
    """Opens the driver for workers that are started with this order. Raises UserError, ExternalError."""
    match config.target:
        case ResourceTarget.LOCAL:
            from headrace.resources.worker_processes import WorkerProcesses

            return WorkerProcesses(home, order, worker_environment(os.environ))
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
