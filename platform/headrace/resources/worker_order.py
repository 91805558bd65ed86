"""The arguments that all workers of a cluster are started with, without their ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.tls.files import TlsFiles

WORKER_ROLE = "headrace-worker"
"""The command `headrace headrace-worker` is `headrace worker`; the name marks the process in lists of processes."""


@dataclass(frozen=True, slots=True)
class WorkerOrder:
    """The flags of the workers of one cluster.

    coordinator  HOST:PORT of the control plane, or the URL of an election whose leader they follow
    slots        slots of each worker
    host         address at which the slots of each listen; None: the worker chooses the one that leads to the
                 coordinator
    token_file   file with the cluster's secret, at the worker's place
    tls          TLS files, at the worker's place; None: connections are not encrypted
    orphan_ms    the worker ends after so long without a coordinator; None: never
    """

    coordinator: str
    slots: int
    host: str | None = None
    token_file: Path | None = None
    tls: TlsFiles | None = None
    orphan_ms: int | None = None

    def arguments(self, worker: str) -> tuple[str, ...]:
        """The arguments of `python -m headrace` for a worker of this id."""
        host = () if self.host is None else ("--host", self.host)
        token = () if self.token_file is None else ("--token-file", str(self.token_file))
        tls = () if self.tls is None else self.tls.arguments()
        orphan = () if self.orphan_ms is None else ("--reconnect-for", f"{self.orphan_ms}ms")
        own = ("--id", worker, "--coordinator", self.coordinator, "--slots", str(self.slots))
        return (WORKER_ROLE, *own, *host, *token, *tls, *orphan)
