"""A coordinator from its start to its end: waits to be elected, leads for one term, gives up.

Shell: `leadership.candidacy` decides. It performs the effects in the event loop; the elector's events come from threads
of the elector.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from headrace.client.discovery import coordinator_file
from headrace.coordinator.dispatch.accepted_job import Surroundings
from headrace.coordinator.dispatch.dispatcher import Dispatcher
from headrace.coordinator.dispatch.term_handlers import TermHandlers
from headrace.coordinator.fleet.fleet import Fleet
from headrace.coordinator.fleet.provisioner import Provisioner
from headrace.coordinator.leading.config import CoordinatorConfig, Hosting, listening_host, open_resources
from headrace.coordinator.leading.identity import ClusterIdentity, read_identity, taken_over_identity
from headrace.coordinator.leading.leader_line import LeaderLine
from headrace.coordinator.leading.standby_app import holding_app, noting_app, standby_app
from headrace.coordinator.rest.access.tokens import Tokens
from headrace.coordinator.rest.app import rest_app
from headrace.coordinator.rest.server import RestServer
from headrace.coordinator.store.job_store import JobStore, open_job_store
from headrace.coordinator.store.ledger_store import LedgerReplacedError
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.files.home_files import PRIVATE_FILE, replace_file
from headrace.core.network.hosts import host_port
from headrace.core.retry import Backoff
from headrace.core.settings import Home
from headrace.leadership.candidacy.candidacy import (
    Candidacy,
    CandidacyEvent,
    GiveUp,
    Hold,
    Lead,
    Replaced,
    Resume,
    Standing,
    StorageLost,
    WorkersLost,
    WorkerWatch,
)
from headrace.leadership.elector import Elector, ElectorEvent, Leader, SoleElector
from headrace.leadership.opening import open_elector
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.resources.worker_order import WorkerOrder
from headrace.rpc.time_settings import times_from

if TYPE_CHECKING:
    from starlette.types import ASGIApp


WATCH_SECONDS = 1.0
"""How often a leader counts its workers."""
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


# ---- the candidate ---------------------------------------------------------------------------------------------------


LOG = logging.getLogger("headrace.coordinator")
LOOK_SECONDS = 1.0
"""Interval at which a standby reads the leader."""
TAKE_OVER_BACKOFF = Backoff(first_s=0.5, max_s=2.0)
TAKE_OVER_SECONDS_MAX = 15.0
"""How long a candidate that was elected tries to reach the ledger, before another one may try."""
SHUTDOWN_SECONDS = 0.2
"""Delay of a shutdown that a client asked for: its answer is sent first."""


class Candidate:
    """One coordinator. Belongs to the event loop. ended: set from outside to end it."""

    def __init__(
        self, config: CoordinatorConfig, ended: asyncio.Event, starter: Starter | None, hosting: Hosting | None = None
    ) -> None:
        """hosting: the system that runs this coordinator; None: it is a process of its own."""
        self._config = config
        self._hosting = hosting
        self._ended = ended
        self._starter = starter
        self._candidacy = Candidacy(has_standbys=config.election is not None)
        self._events: asyncio.Queue[CandidacyEvent] = asyncio.Queue()
        self._leader: Leader | None = None
        self._tokens: Tokens | None = None
        self._term: Term | None = None
        self._app: ASGIApp | None = None
        self._looking: asyncio.Task[None] | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._failure: HeadraceError | None = None
        self._stops_workers = False
        self._url = ""
        self._port = 0
        self._line = LeaderLine(config.tls, secrets.token_hex(8), os.environ)
        self._rest = RestServer(self._standby_app())

    async def run(self) -> bool:
        """Runs until it is ended, or leads no more. Returns whether it gave up: a standby should take its place then.

        Raises UserError, ExternalError.
        """
        config = self._config
        elector = self._elector()
        store = open_job_store(Home(config.home), shared=config.ledger)
        self._port = await self._rest.start(config.host, config.port, config.tls)
        self._url = config.url(self._port)
        self._rest.answer_with(self._standby_app())
        receive = self._receiver()
        try:
            # it may be cut off as this coordinator is
            await self._reached(lambda: elector.campaign(receive), "the election cannot be reached")
            if config.election is not None:
                self._looking = asyncio.create_task(self._look(elector, store))
            await self._follow(elector, store)
        finally:
            for task in (self._looking, self._announcing):
                if task is not None:
                    task.cancel()
            self._rest.end()
            if self._term is not None:
                await self._term.close(workers=self._stops_workers)
            _withdraw(config)
            # after the jobs are suspended: the next one is elected at once
            await asyncio.to_thread(elector.close)
            await self._rest.ended()
            await self._line.close()
        if self._failure is not None:
            raise self._failure
        return self._candidacy.standing is Standing.OVER and not self._ended.is_set()

    def _standby_app(self) -> ASGIApp:
        return standby_app(lambda: self._tokens, lambda: self._leader, self._url, self._line)

    def _elector(self) -> Elector:
        if self._hosting is not None:
            return self._hosting.elector()
        return SoleElector() if self._config.election is None else open_elector(self._config.election, os.environ)

    def _receiver(self) -> Callable[[ElectorEvent], None]:
        """Passes the elector's events from its threads to this loop."""
        loop = asyncio.get_running_loop()

        def receive(event: ElectorEvent) -> None:
            # the loop is closed if the process ends at this moment
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._events.put_nowait, event)

        return receive

    async def _follow(self, elector: Elector, store: JobStore) -> None:
        """Performs the effects of events until the coordinator is over or ended."""
        over = asyncio.create_task(self._ended.wait())
        try:
            while not self._ended.is_set():
                event = asyncio.create_task(self._events.get())
                await asyncio.wait({event, over}, return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    return
                match self._candidacy.on(event.result()):
                    case None:
                        pass
                    case Lead():
                        await self._lead(elector, store)
                    case Hold(reason):
                        LOG.warning("leadership is in doubt: %s", reason)
                        self._answer(reason)
                    case Resume():
                        LOG.info("leadership is certain again")
                        self._answer(None)
                    case GiveUp(reason):
                        LOG.error("this coordinator leads no more: %s", reason)
                        return
                    case effect:
                        assert_never(effect)
        finally:
            over.cancel()

    async def _lead(self, elector: Elector, store: JobStore) -> None:
        if self._config.election is not None:
            LOG.info("this coordinator was elected, and takes the ledger over")
        term = self._term = Term(self._config, store, self._starter, self._hosting)
        if not await self._take_over(term, elector):
            return
        port = await term.open(TermHandlers(self._shut_down, self._events.put_nowait))
        self._app = term.app()
        self._rest.answer_with(self._app)
        # published once the jobs are read, because the requests of clients that find it need them
        _publish(self._config, self._port, port)
        LOG.info("this coordinator leads: REST at port %d", self._port)
        leader = Leader(self._url, self._config.address(port), term.number)
        announcing = self._reached(lambda: elector.announce(leader), "others cannot find this coordinator")
        self._announcing = asyncio.create_task(announcing)

    async def _take_over(self, term: Term, elector: Elector) -> bool:
        """Takes over the ledger, and retries while storage fails; returns whether this coordinator owns it."""
        loop = asyncio.get_running_loop()
        pause_s, deadline_s = 0.0, loop.time() + TAKE_OVER_SECONDS_MAX
        while not self._ended.is_set():
            try:
                await term.take_over(elector.is_elected)
            except LedgerReplacedError as error:
                if self._config.election is None:
                    raise
                # it was suspended or slow, and another one was elected since then
                self._events.put_nowait(Replaced(error.message))
                return False
            except ExternalError as error:
                # without a standby there is nobody else: its supervisor starts it again
                if self._config.election is None or not error.retry:
                    raise
                if loop.time() > deadline_s:
                    self._events.put_nowait(StorageLost(error.message))
                    return False
                LOG.warning("the ledger cannot be taken over: %s", error.message)
            else:
                return True
            pause_s = TAKE_OVER_BACKOFF.next_s(pause_s)
            await asyncio.sleep(pause_s)
        return False

    def _answer(self, doubt: str | None) -> None:
        """Lets the cluster's API answer; doubt: why it accepts nothing that changes something."""
        if self._app is not None:
            self._rest.answer_with(self._app if doubt is None else holding_app(self._app, doubt))

    def _shut_down(self) -> None:
        self._stops_workers = True
        if self._hosting is not None:
            self._hosting.shutdown_requested()
        asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, self._ended.set)

    async def _look(self, elector: Elector, store: JobStore) -> None:
        """Keeps what a standby answers with: who leads, and the tokens. Loads what it needs to take over.

        A standby that could never lead ends: its key is another one, or its token cannot be read.
        """
        warming = asyncio.get_running_loop().run_in_executor(None, warm_up, self._starter)
        trouble = ""
        while self._term is None:
            try:
                await self._look_once(elector, store)
                trouble = ""
            except HeadraceError as error:
                if not error.retry:
                    self._failure = error
                    self._ended.set()
                    return
                if trouble != error.message:
                    trouble = error.message
                    LOG.warning("who leads is unknown: %s", trouble)
            await asyncio.sleep(LOOK_SECONDS)
        await warming

    async def _look_once(self, elector: Elector, store: JobStore) -> None:
        self._leader = await asyncio.to_thread(elector.find)
        if self._tokens is not None:
            if self._leader is not None and self._leader.url != self._url:
                # a leader that does not answer has no use for it
                with contextlib.suppress(HeadraceError):
                    await self._line.show(self._leader, self._tokens.full)
            return
        tokens = await asyncio.to_thread(read_identity, self._config, store)
        if tokens is not None and self._term is None:
            _publish(self._config, self._port, None)
        self._tokens = tokens

    async def _reached(self, ask: Callable[[], None], trouble: str) -> None:
        """Asks the election in a thread, again and again while it cannot be reached, or until this coordinator ends."""
        pause_s = 0.0
        while not self._ended.is_set():
            try:
                await asyncio.to_thread(ask)
            except ExternalError as error:
                if not error.retry:
                    raise
                LOG.warning("%s: %s", trouble, error.message)
            else:
                return
            pause_s = TAKE_OVER_BACKOFF.next_s(pause_s)
            await asyncio.sleep(pause_s)


def _publish(config: CoordinatorConfig, port: int, grpc_port: int | None) -> None:
    """Writes the file in the home by which clients find the coordinator (`client.discovery`).

    grpc_port None: a standby, which has no workers; its clients are redirected to the leader.
    """
    document = {"url": config.own_url(port), "pid": os.getpid(), "token_file": str(config.shown_token_file)}
    if grpc_port is not None:
        document["grpc"] = host_port(config.host, grpc_port)
    if config.tls is not None:
        document["tls_ca"] = str(config.tls.ca)
    data = json.dumps(document).encode()
    replace_file(coordinator_file(Home(config.home)), data, mode=PRIVATE_FILE)


def _withdraw(config: CoordinatorConfig) -> None:
    """Deletes the file of `_publish`, unless another coordinator of this home has replaced it."""
    file = coordinator_file(Home(config.home))
    with contextlib.suppress(OSError, ValueError):
        if json.loads(file.read_text())["pid"] == os.getpid():
            file.unlink()
