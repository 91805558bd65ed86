"""The page of a home's cluster: one more process, which only its users need. The cluster does not depend on it."""

from __future__ import annotations

from headrace.client.discovery import cluster_folder
from headrace.client.token_files import ensure_token
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.local.cluster.record import ClusterRecord
from headrace.processes.detached import ModuleCommand

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
