"""The file in a home by which its clients find the coordinator (`client.discovery`)."""

from __future__ import annotations

import contextlib
import json
import os

from headrace.client.discovery import coordinator_file
from headrace.coordinator.leading.config import CoordinatorConfig
from headrace.core.files.private_files import PRIVATE_FILE
from headrace.core.files.replaced_file import replace_file
from headrace.core.network.hosts import host_port
from headrace.core.settings import Home


def publish(config: CoordinatorConfig, port: int, grpc_port: int | None) -> None:
    """Writes the file. grpc_port None: a standby, which has no workers; its clients are sent on to the leader."""
    document = {"url": config.own_url(port), "pid": os.getpid(), "token_file": str(config.shown_token_file)}
    if grpc_port is not None:
        document["grpc"] = host_port(config.host, grpc_port)
    if config.tls is not None:
        document["tls_ca"] = str(config.tls.ca)
    data = json.dumps(document).encode()
    replace_file(coordinator_file(Home(config.home)), data, mode=PRIVATE_FILE)


def withdraw(config: CoordinatorConfig) -> None:
    """Deletes the file, unless another coordinator of this home has replaced it."""
    file = coordinator_file(Home(config.home))
    with contextlib.suppress(OSError, ValueError):
        if json.loads(file.read_text())["pid"] == os.getpid():
            file.unlink()
