"""The shape of a home's cluster, which its next start takes over: `<home>/cluster/shape.json`.

The record of a cluster ends when it is stopped; its shape stays. So addresses that others have noted (a monitoring
system, a bookmark, HEADRACE_COORDINATOR) hold over a stop and a start.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.client.discovery import cluster_folder
from headrace.core.errors import UserError
from headrace.core.files.private_files import PRIVATE_FILE
from headrace.core.files.replaced_file import replace_file
from headrace.core.network.hosts import LOOPBACK, host_port
from headrace.core.settings import Home
from headrace.local.cluster.record import ClusterRecord
from headrace.processes.ports import free_port, is_free

WORKERS, SLOTS = 1, 4
"""The default size of a cluster."""


class ClusterShape(BaseModel):
    """Size and ports of a cluster. slots: of each worker; port: of the REST API; grpc_port: of the control plane;
    page_port: of its page, if it had one."""

    model_config = ConfigDict(frozen=True)

    workers: int = WORKERS
    slots: int = SLOTS
    port: int | None = None
    grpc_port: int | None = None
    page_port: int | None = None


def shape_file(home: Home) -> Path:
    """The file of a home's shape."""
    return cluster_folder(home) / "shape.json"


def read_shape(home: Home) -> ClusterShape:
    """Returns the shape of the home's last cluster; the default if there was none, or its file is unreadable."""
    try:
        return ClusterShape.model_validate_json(shape_file(home).read_bytes())
    except (OSError, ValidationError):
        return ClusterShape()


def keep_shape(home: Home, record: ClusterRecord) -> None:
    """Keeps the shape of a cluster that runs."""
    shape = ClusterShape(
        workers=len(record.workers),
        slots=record.slots,
        port=port_of(record.url),
        grpc_port=port_of(record.grpc),
        page_port=record.page_port or read_shape(home).page_port,
    )
    replace_file(shape_file(home), f"{shape.model_dump_json(indent=1)}\n".encode(), mode=PRIVATE_FILE)


def port_of(address: str) -> int:
    """The port of a URL without a path, or of HOST:PORT."""
    return int(address.rpartition(":")[2])


def new_record(shape: ClusterShape, slots: int | None, port: int | None) -> ClusterRecord:
    """Returns the record of a cluster that is to start: on the port that is asked for, else on the ports of its shape,
    else, where others listen there, on new ones. Raises UserError if others listen on the port that is asked for."""
    if port is not None:
        require_free(port)
    rest = port if port is not None else _kept_or_free(shape.port)
    grpc = _kept_or_free(None if shape.grpc_port == rest else shape.grpc_port, other_than=rest)
    return ClusterRecord(url=f"http://{LOOPBACK}:{rest}", grpc=f"{LOOPBACK}:{grpc}", slots=slots or shape.slots)


def page_port(record: ClusterRecord, shape: ClusterShape) -> int:
    """Returns the port of the cluster's page: as recorded, else as in its last cluster if nobody listens there, else a
    free one."""
    return record.page_port or _kept_or_free(shape.page_port)


def with_port(record: ClusterRecord, port: int | None) -> ClusterRecord:
    """Returns the record with another port of its REST API. Raises UserError if a process of it runs, or others listen
    there."""
    if port is None or port == port_of(record.url):
        return record
    if any(member.process.is_alive() for member in record.members):
        raise UserError(f"the cluster runs at {record.url}", remedy="stop it first: headrace cluster stop")
    require_free(port)
    scheme, address = record.url.split("://")
    return record.model_copy(update={"url": f"{scheme}://{host_port(address.rpartition(':')[0], port)}"})


def require_free(port: int) -> None:
    """Raises UserError if others listen on the port."""
    if not is_free(port):
        raise UserError(f"--port {port}: another process listens there", remedy="name another port")


def _kept_or_free(port: int | None, *, other_than: int = 0) -> int:
    return port if port is not None and is_free(port) else free_port(other_than=other_than)
