"""The contract of a system that runs the coordinator itself: it elects the coordinator, and has its workers.

On hosts and on Kubernetes a coordinator is one process among others, and needs a configuration only. An application of
YARN *is* its coordinator (the ApplicationMaster): its live half belongs to the process, and outlives a term.
"""

from __future__ import annotations

from typing import Protocol

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.coordinator.leading.resources import OpenedResources
from headrace.leadership.elector import Elector
from headrace.resources.worker_order import WorkerOrder


class Hosting(Protocol):
    """The live half, as a coordinator uses it."""

    @property
    def worker_secrets(self) -> SharedSecrets:
        """Secrets that are replaced while workers run."""
        ...

    def elector(self) -> Elector:
        """Returns the elector of this coordinator."""
        ...

    def open_resources(self, order: WorkerOrder, term: int) -> OpenedResources:
        """Opens the driver for workers that are started with this order. Raises ExternalError."""
        ...

    def shutdown_requested(self) -> None:
        """A client has asked for the end of the whole cluster. Must not block."""
        ...
