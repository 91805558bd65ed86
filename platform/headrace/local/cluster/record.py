"""What a home knows of its cluster: `<home>/cluster/cluster.json`, changed under a lock between processes.

The record outlives its processes: ports and worker ids stay, so that workers find a coordinator that was started
again, and the coordinator knows workers that stayed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.client.discovery import cluster_folder, record_file
from headrace.core.errors import UserError
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import Home
from headrace.local.marked_process import MarkedProcess
from headrace.tls.files import TlsFiles


class Member(BaseModel):
    """One process. `marks`: arguments of its command line by which it is known."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    marks: tuple[str, ...]
    log: Path

    @property
    def process(self) -> MarkedProcess:
        """The process, to be asked whether it is still this member."""
        return MarkedProcess(self.pid, self.marks)


class ClusterRecord(BaseModel):
    """A cluster as it was started. url: of the REST API; grpc: HOST:PORT of the control plane; tls: all processes'."""

    model_config = ConfigDict(frozen=True)

    url: str
    grpc: str
    slots: int
    tls: TlsFiles | None = None
    coordinator: Member | None = None
    workers: tuple[Member, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """All of its processes, the coordinator first."""
        return (*(() if self.coordinator is None else (self.coordinator,)), *self.workers)


class ClusterStatus(BaseModel):
    """running: names of processes that run; dead: of those that are recorded and do not; answering: REST does."""

    model_config = ConfigDict(frozen=True)

    record: ClusterRecord | None = None
    running: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    answering: bool = False
    slots: int = 0
    slots_free: int = 0
    jobs_running: int = 0


def read_record(home: Home) -> ClusterRecord | None:
    """What is recorded; None when there is nothing, or nothing that can be read."""
    try:
        return ClusterRecord.model_validate_json(record_file(home).read_bytes())
    except (OSError, ValidationError):
        return None


def write_record(home: Home, record: ClusterRecord) -> None:
    """Replaces what is recorded."""
    replace_file(record_file(home), f"{record.model_dump_json(indent=1)}\n".encode(), mode=PRIVATE_FILE)


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Only one process at a time starts or stops the home's cluster. Makes the folder."""
    folder = cluster_folder(home)
    try:
        make_private_folder(folder)
        handle = os.fdopen(os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be written: {error.strerror}",
            remedy="point HEADRACE_HOME to a folder of your own",
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
