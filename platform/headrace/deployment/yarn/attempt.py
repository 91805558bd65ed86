"""An attempt of the ApplicationMaster, as the coordinator in this process uses it (`coordinator.leading.hosting`).

YARN elects: it runs one attempt at a time. An attempt that was suspended while YARN gave it up is a zombie: the ledger
refuses what it decides, and it ends with its next call to the ResourceManager.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from headrace.coordinator.fleet.shared_secrets import SharedSecrets
from headrace.coordinator.leading.resources import OpenedResources
from headrace.deployment.yarn.application_file import ApplicationFile
from headrace.deployment.yarn.launches import worker_launch
from headrace.leadership.elector import Elected, Elector, ElectorEvent
from headrace.leadership.leader import Leader
from headrace.leadership.published_leader import PublishedLeader
from headrace.resources.worker_order import WorkerOrder
from headrace.resources.yarn.worker_containers import WorkerContainers
from headrace.yarn.master.application_master import ApplicationMaster
from headrace.yarn.master.link import MasterAddress
from headrace.yarn.records import Launch

REGISTER_SECONDS = 60.0
"""How long one try to register waits; the coordinator tries again."""


class AttemptElector:
    """The elector of an ApplicationMaster: YARN has elected it by starting it."""

    def __init__(self, master: ApplicationMaster, published: PublishedLeader) -> None:
        self._master = master
        self._published = published

    @property
    def lease_ms(self) -> int:
        """0: there is no standby."""
        return 0

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Is elected at once."""
        on_event(Elected())

    def is_elected(self) -> bool:
        """Yes: an attempt that is over has ended."""
        return True

    def announce(self, leader: Leader) -> None:
        """Registers at the ResourceManager, by which clients find this attempt, and publishes the address beside the
        ledger, by which workers do. Raises ExternalError."""
        control = urlsplit(f"//{leader.control}")
        host, port = str(control.hostname), int(control.port or 0)
        self._master.register(MasterAddress(host, port, leader.url), patience_s=REGISTER_SECONDS)
        self._published.publish(leader)

    def find(self) -> Leader | None:
        """The leader that was published last."""
        return self._published.find()

    def close(self) -> None:
        """Has nothing to give up."""


class Attempt:
    """The live half. is_shut_down: a client has asked for the end of the cluster; worker_secrets: those that are
    replaced while workers run."""

    def __init__(
        self,
        application: ApplicationFile,
        master: ApplicationMaster,
        published: PublishedLeader,
        worker_secrets: SharedSecrets,
    ) -> None:
        self._application = application
        self.worker_secrets = worker_secrets
        self._master = master
        self._published = published
        self.is_shut_down = False

    def elector(self) -> Elector:
        """The elector of this attempt."""
        return AttemptElector(self._master, self._published)

    def open_resources(self, order: WorkerOrder, term: int) -> OpenedResources:
        """The containers of the application, also those that an earlier attempt has started."""
        application = self._application

        def launch(worker: str) -> Launch:
            return worker_launch(application, order, worker)

        return OpenedResources(WorkerContainers(self._master, application.spec.workers.size, launch), f"w{term}-")

    def shutdown_requested(self) -> None:
        """Notes it."""
        self.is_shut_down = True
