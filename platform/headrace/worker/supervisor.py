"""A worker: keeps slot processes alive and carries words between them and the coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.rpc.messages import ClusterTimes


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker is started with.

    worker              its id: of [A-Za-z0-9._-], no other worker of the cluster has it
    coordinator         HOST:PORT of its control plane
    slots               slot processes that it keeps
    host                where its slots listen: an address that the other hosts reach
    folder              of this worker alone; logs of slots go to `<folder>/logs`
    token               the cluster's shared secret
    memory_limit_bytes  resident memory of one slot above which it is killed; None: no limit
    reconnect_for_ms    gives up after so long without a coordinator; None: never
    """

    worker: str
    coordinator: str
    slots: int
    host: str
    folder: Path
    token: str = field(repr=False)
    times: ClusterTimes = field(default_factory=ClusterTimes)
    memory_limit_bytes: int | None = None
    reconnect_for_ms: int | None = None


class Supervisor:
    """One worker. `start` and `stop` for one inside of a larger process (threads only), `run` for its own."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config

    def run(self) -> None:
        """Runs until SIGTERM, SIGINT or the coordinator's StopWorker. Call it in the main thread.

        Raises UserError when the coordinator refuses the worker, Unreachable when it gave up.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Starts the worker's threads and slots; sets no signal handlers. Raises UserError when the folder is taken."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the worker has ended by itself or by `stop`; False: not yet. Raises as `run`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Says goodbye, ends all slots, and returns when nothing of the worker is left. Idempotent."""
        raise NotImplementedError
