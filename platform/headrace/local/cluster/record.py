"""The record of a home's cluster: `<home>/cluster/cluster.json`, changed under a lock between processes.

The record outlives the processes. Ports and worker ids stay, so that workers find a restarted coordinator, and the
coordinator recognises workers that stayed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.client.discovery import cluster_folder, record_file
from headrace.core.errors import UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.network.hosts import LOOPBACK
from headrace.core.settings import Home
from headrace.processes.marked_process import MarkedProcess
from headrace.tls.files import TlsFiles


class Election(BaseModel):
    """The flags of a coordinator with standbys (`headrace coordinator`), and of the workers that follow its leader.

    url       of the election
    ledger    URL of the shared ledger; None: as the election names it
    key_file  of the shared ledger
    host      name or address by which other hosts reach this one; its processes listen there
    tag       part of the ids of this host's workers, so that no other host has them
    """

    model_config = ConfigDict(frozen=True)

    url: str
    ledger: str | None = None
    key_file: Path | None = None
    host: str = LOOPBACK
    tag: str = Field(default_factory=lambda: secrets.token_hex(3))

    @property
    def coordinator_arguments(self) -> tuple[str, ...]:
        """The coordinator's flags."""
        ledger = () if self.ledger is None else ("--ledger", self.ledger)
        key = () if self.key_file is None else ("--key-file", str(self.key_file))
        return ("--election", self.url, *ledger, *key)

    def same_cluster(self, other: Election) -> bool:
        """Whether both name the same cluster and host."""
        return self.model_copy(update={"tag": other.tag}) == other


class Member(BaseModel):
    """One process. `marks`: arguments of its command line that identify it."""

    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    marks: tuple[str, ...]
    log: Path

    @property
    def process(self) -> MarkedProcess:
        """The process, which is only alive if it still has the marks."""
        return MarkedProcess(self.pid, self.marks)


class ClusterRecord(BaseModel):
    """A cluster as it was started. url: of the REST API; grpc: HOST:PORT of the control plane; tls: of all processes;
    election: None unless other hosts run parts of the cluster, too; page: its process and port, if it has one.
    """

    model_config = ConfigDict(frozen=True)

    url: str
    grpc: str
    slots: int
    tls: TlsFiles | None = None
    election: Election | None = None
    coordinator: Member | None = None
    workers: tuple[Member, ...] = ()
    page: Member | None = None
    page_port: int | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """All of its processes, the coordinator first."""
        page = () if self.page is None else (self.page,)
        return (*(() if self.coordinator is None else (self.coordinator,)), *self.workers, *page)

    def worker_id(self, number: int) -> str:
        """The id of this host's worker of that number, which ends with it."""
        return f"worker-{number}" if self.election is None else f"worker-{self.election.tag}-{number}"


class ClusterStatus(BaseModel):
    """running: names of running processes; dead: names of recorded processes that do not run; answering: REST
    answers.
    """

    model_config = ConfigDict(frozen=True)

    record: ClusterRecord | None = None
    running: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    answering: bool = False
    slots: int = 0
    slots_free: int = 0
    jobs_running: int = 0


def read_record(home: Home) -> ClusterRecord | None:
    """Returns the record; None if there is none, or it is unreadable."""
    try:
        return ClusterRecord.model_validate_json(record_file(home).read_bytes())
    except (OSError, ValidationError):
        return None


def write_record(home: Home, record: ClusterRecord) -> None:
    """Replaces the record."""
    replace_file(record_file(home), f"{record.model_dump_json(indent=1)}\n".encode(), mode=PRIVATE_FILE)


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Holds the home's lock: one process at a time starts or stops the cluster. Makes the folder."""
    folder = cluster_folder(home)
    try:
        make_private_folder(folder)
        handle = os.fdopen(os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be written: {error.strerror}",
            remedy="set HEADRACE_HOME to a folder that you can write",
        ) from error
    with handle:
        # the kernel releases it with this process, also after kill -9
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
