"""One term of a coordinator that leads: from the record with which it takes the ledger over to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.coordinator.dispatch.accepted_job import Surroundings
from headrace.coordinator.dispatch.dispatcher import Dispatcher
from headrace.coordinator.dispatch.term_handlers import TermHandlers
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.fleet.provisioner import Provisioner
from headrace.coordinator.leading.config import CoordinatorConfig, Hosting
from headrace.coordinator.leading.identity import ClusterIdentity, taken_over_identity
from headrace.coordinator.leading.resources import listening_host, open_resources
from headrace.coordinator.leading.standby_app import noting_app
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.store.job_store import JobStore
from headrace.core.clock import SystemClock
from headrace.core.settings import Home
from headrace.leadership.candidacy.candidacy import WorkersLost, WorkerWatch
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.resources.worker_order import WorkerOrder
from headrace.rpc.time_settings import times_from

if TYPE_CHECKING:
    from starlette.types import ASGIApp

WATCH_SECONDS = 1.0
"""How often a leader counts its workers."""
LOG = logging.getLogger("headrace.coordinator")
WARM_UP_AFTER_SECONDS = 0.5
"""Delay before the planning modules are imported. The import holds the interpreter's lock for hundreds of milliseconds,
and clients that wait for the cluster should be answered before that.
"""


class Term:
    """The live parts of a coordinator that leads: `take_over`, `open`, then `close`."""

    def __init__(
        self, config: CoordinatorConfig, store: JobStore, starter: Starter | None, hosting: Hosting | None = None
    ) -> None:
        self._config = config
        self._hosting = hosting
        self._store = store
        self._starter = starter
        self._identity: ClusterIdentity | None = None
        self._fleet: Fleet | None = None
        self._provisioner: Provisioner | None = None
        self._dispatcher: Dispatcher | None = None
        self._watching: asyncio.Task[None] | None = None
        self._worker_watch: WorkerWatch | None = None

    @property
    def number(self) -> int:
        """The number of the record that took the ledger over."""
        return self._store.term

    async def take_over(self, is_elected: Callable[[], bool]) -> None:
        """Takes the ledger over. is_elected: blocks. Raises UserError; LedgerReplacedError if another coordinator leads
        or may lead; another ExternalError, after which it may be called again."""
        self._identity = await asyncio.to_thread(taken_over_identity, self._config, self._store, is_elected)

    async def open(self, handlers: TermHandlers) -> int:
        """Listens for workers, and resumes the jobs. Returns the port for workers.

        Raises UserError, ExternalError; `close` must be called then, too.
        """
        config, identity = self._config, self._taken_over()
        home, clock = Home(config.home), SystemClock()
        checkpoints = str(home.checkpoints) if config.ledger is None else config.ledger.checkpoints
        surroundings = Surroundings(home, clock, checkpoints, self._starter or SpawnStarter())
        times = times_from(os.environ)
        secrets = None if self._hosting is None else self._hosting.worker_secrets
        fleet = self._fleet = Fleet(identity.cluster, times, term=self.number, secrets=secrets)
        port = await fleet.start(config.host, config.grpc_port, identity.tokens.full, config.tls)
        self._provisioner = self._opened_provisioner(fleet, port, times.orphan)
        self._dispatcher = Dispatcher(surroundings, identity.cluster, self._store, fleet, handlers)
        await self._dispatcher.start()
        if self._provisioner is not None:
            # after the jobs: they have requested their slots by then, or do so soon
            self._provisioner.start()
        LOG.info("cluster %s, term %d: workers at port %d", identity.cluster, self.number, port)
        LOG.info("clients and workers show the token in %s", config.shown_token_file)
        watch = self._worker_watch = WorkerWatch(times.lease, times.worker_lost + times.reconnect)
        self._watching = asyncio.create_task(_watch_workers(fleet, handlers, watch))
        loop = asyncio.get_running_loop()
        loop.call_later(WARM_UP_AFTER_SECONDS, loop.run_in_executor, None, warm_up, self._starter)
        return port

    def app(self) -> ASGIApp:
        """The REST API, once `open` has returned."""
        assert self._dispatcher is not None, "`open` was called"
        tokens = self._taken_over().tokens
        return noting_app(rest_app(self._dispatcher, tokens), tokens, self._standby_seen)

    def _standby_seen(self) -> None:
        if self._worker_watch is not None:
            self._worker_watch.standby_seen(_now_ms())

    async def close(self, *, workers: bool) -> None:
        """Suspends the jobs. workers: they are asked to end, too."""
        if self._watching is not None:
            self._watching.cancel()
        if self._dispatcher is not None:
            await self._dispatcher.close()
        if self._provisioner is not None:
            await self._provisioner.close(workers=workers)
        if self._fleet is not None:
            await self._fleet.stop(workers=workers)

    def _opened_provisioner(self, fleet: Fleet, port: int, orphan_ms: int) -> Provisioner | None:
        config = self._config
        if config.resources is None:
            return None
        order = WorkerOrder(
            coordinator=config.resources.worker_address or config.election or config.address(port),
            slots=config.resources.provisioning.slots,
            host=listening_host(config.host),
            token_file=config.shown_token_file,
            tls=config.tls,
            orphan_ms=orphan_ms,
        )
        if self._hosting is not None:
            resources = self._hosting.open_resources(order, self.number)
        else:
            resources = open_resources(config.resources, Home(config.home), order, self.number)
        return Provisioner(
            fleet,
            resources.driver,
            config.resources.provisioning,
            prefix=resources.prefix,
            require_leading=self._store.require_own,
        )

    def _taken_over(self) -> ClusterIdentity:
        assert self._identity is not None, "`take_over` was called"
        return self._identity


async def _watch_workers(fleet: Fleet, handlers: TermHandlers, watch: WorkerWatch) -> None:
    while not watch.gives_up(fleet.workers_connected, fleet.workers_lost, _now_ms()):
        await asyncio.sleep(WATCH_SECONDS)
    handlers.on_over(WorkersLost("all its workers are gone, and another coordinator may reach them"))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def warm_up(starter: Starter | None) -> None:
    """Imports the modules that planning needs, so that the first job does not wait for them. A coordinator answers
    requests before that."""
    from headrace.coordinator.dispatch.preparation import load_planning

    try:
        if starter is not None:
            # the template imports in parallel with this process
            starter.ready()
        load_planning()
    except Exception:
        # the first job will raise the same error, and its user will see it
        LOG.exception("planning cannot be loaded")
