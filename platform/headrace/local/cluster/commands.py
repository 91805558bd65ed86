"""The command lines of a cluster's processes, the marks in them that identify a process, and the address of the page.

The page is one more process, which only its users need. The cluster does not depend on it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headrace.client.discovery import COORDINATOR_VARIABLE, cluster_folder, token_file
from headrace.client.token_files import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, ensure_token
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.local.cluster.record import ClusterRecord
from headrace.processes.detached import ModuleCommand
from headrace.resources.worker_order import WORKER_ROLE, WorkerOrder
from headrace.resources.worker_processes import home_mark, worker_module
from headrace.tls.files import CERT_VARIABLE, KEY_VARIABLE, TlsFiles

COORDINATOR_ROLE, SLOT_ROLE = "headrace-coordinator", "headrace-slot"


def coordinator_command(home: Home, record: ClusterRecord) -> ModuleCommand:
    """Returns the command of a coordinator with the recorded ports: on loopback, or on the host that an election
    names."""
    ports = ("--port", _port(record.url), "--grpc-port", _port(record.grpc))
    place: tuple[str, ...]
    if record.election is None:
        place = ("--host", LOOPBACK, "--token-file", str(token_file(home)))
    else:
        # without a token file: the cluster's token is in the shared ledger
        place = ("--host", record.election.host, *record.election.coordinator_arguments)
    arguments = (COORDINATOR_ROLE, "--home", str(home.root), *ports, *place, *_tls(record.tls))
    return ModuleCommand("headrace.coordinator.main", arguments)


def worker_command(home: Home, worker: str, record: ClusterRecord) -> ModuleCommand:
    """Returns the command of a worker on this host, which dials the coordinator, or the leader of an election."""
    election = record.election
    coordinator, host = (record.grpc, LOOPBACK) if election is None else (election.url, election.host)
    return worker_module(home, WorkerOrder(coordinator, record.slots, host, token_file(home), record.tls), worker)


def coordinator_marks(home: Home) -> tuple[str, ...]:
    """Returns the arguments that only this home's coordinator has."""
    return (COORDINATOR_ROLE, str(home.root))


def worker_marks(home: Home, worker: str) -> tuple[str, ...]:
    """Returns the arguments that only this worker has."""
    return (WORKER_ROLE, worker, home_mark(home))


def log_file(home: Home, name: str) -> Path:
    """Returns the log file of a process of the cluster."""
    return cluster_folder(home) / "logs" / f"{name}.log"


def environment(home: Home) -> Mapping[str, str]:
    """Returns the environment of a home's processes, without variables that name another cluster. Their TLS files are
    those that the home records.
    """
    others = {COORDINATOR_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE, CERT_VARIABLE, KEY_VARIABLE}
    own = {name: value for name, value in os.environ.items() if name not in others}
    return own | {"HEADRACE_HOME": str(home.root), "PYTHONUNBUFFERED": "1"}


def _tls(tls: TlsFiles | None) -> tuple[str, ...]:
    return () if tls is None else tls.arguments()


def _port(address: str) -> str:
    return address.rpartition(":")[2]


PAGE_ROLE = "headrace-ui"
PAGE_NAME = "ui"


def page_command(home: Home, port: int, record: ClusterRecord) -> ModuleCommand:
    """Returns the command of the page, on loopback, with the cluster's TLS files. The module is of a layer above: it is
    named, not imported."""
    tls = () if record.tls is None else record.tls.arguments()
    return ModuleCommand("headrace.ui.main", (PAGE_ROLE, "--home", str(home.root), "--port", str(port), *tls))


def page_marks(home: Home) -> tuple[str, ...]:
    """Returns the arguments that only this home's page has."""
    return (PAGE_ROLE, str(home.root))


def page_link(home: Home, record: ClusterRecord) -> str | None:
    """The address that opens the page with its token; None: the cluster has no page."""
    if record.page is None or record.page_port is None:
        return None
    scheme = "http" if record.tls is None else "https"
    token = ensure_token(cluster_folder(home) / "ui-token")
    return f"{scheme}://{host_port(LOOPBACK, record.page_port)}/login?token={token}"
