"""The ApplicationMaster in this process: one thread that speaks with the ResourceManager, some that start containers.

    request, release ──> machine and roster (under a lock) <── thread: allocate, again and again ──> JVM

`allocate` may block for as long as the ResourceManager is away, so nothing waits for it. A JVM that dies is replaced
within the attempt: response ids and tokens of nodes are here. An attempt that is over ends this process at once,
because the next one may be running.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.retry import Backoff
from headrace.yarn.jvm import JvmConfig, JvmLostError
from headrace.yarn.master.allocation import AllocationMachine, Held, Roster
from headrace.yarn.master.link import MasterAddress, MasterLink, Registration, WorkerContainers
from headrace.yarn.records import Allocation, ContainerSize, Credentials, FinalStatus, Headroom, Launch, Token
from headrace.yarn.refusals import AttemptOverError, NotRegisteredError, RefusedError

LOG = logging.getLogger("headrace.yarn")
EAGER_SECONDS, IDLE_SECONDS = 0.2, 1.0
"""Pause between two calls: while containers are requested, and otherwise."""
JVM_STARTS_MAX = 20
"""JVMs that fail one after the other before this attempt gives up."""
BACKOFF = Backoff(first_s=0.5, max_s=5.0)
STARTERS = 8
"""Containers that are started at the same time: a node that does not answer holds up one of them."""
START_AGAIN_SECONDS = 0.5
"""Pause before a container is started by the next JVM."""
JOIN_SECONDS = 20.0
STANDING_SECONDS = 10.0
"""How long a term that begins waits for the registration, which follows its announcement."""
OVER_EXIT_CODE = 70
_STARTED_BEFORE = "already is running on this node"
"""Words of a NodeManager."""


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """jvm: of the link; containers: their size and priority; credentials: host name of a node -> the current
    credentials of a container there. Several threads call it."""

    jvm: JvmConfig
    containers: WorkerContainers
    credentials: Callable[[str], Credentials]


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the application: its containers, the rest of its queue, and the largest container. leaving: the
    nodes that YARN decommissions."""

    held: tuple[Held, ...]
    queue: str
    headroom: Headroom | None
    maximum: ContainerSize
    leaving: frozenset[str] = frozenset()


def leave_at_once(reason: str) -> None:
    """Ends this process like a crash: nothing that it would do in order may follow."""
    LOG.error("this attempt of the ApplicationMaster is over: %s", reason)
    logging.shutdown()
    os._exit(OVER_EXIT_CODE)


def host_of(node: str) -> str:
    """The host name of a node `HOST:PORT`, by which its containers listen."""
    return node.rpartition(":")[0]


class ApplicationMaster:
    """One attempt. Thread-safe. on_over: called once, in its thread, when the attempt is over."""

    def __init__(self, config: MasterConfig, on_over: Callable[[str], None] = leave_at_once) -> None:
        self._config = config
        self._on_over = on_over
        self._machine = AllocationMachine()
        self._roster = Roster()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._registered = threading.Event()
        self._address: MasterAddress | None = None
        self._registration: Registration | None = None
        self._headroom: Headroom | None = None
        self._leaving: set[str] = set()
        self._launches: dict[int, Launch] = {}
        self._tokens: dict[str, Token] = {}
        self._link: MasterLink | None = None
        self._over = ""
        self._trouble = ""
        self._starters = ThreadPoolExecutor(STARTERS, "headrace-container-start")
        self._thread = threading.Thread(target=self._run, name="headrace-application-master", daemon=True)

    def start(self) -> None:
        """Starts the JVM, in the thread."""
        self._thread.start()

    def register(self, address: MasterAddress, *, patience_s: float) -> None:
        """Registers this attempt with its addresses. Raises ExternalError after `patience_s`."""
        self._address = address
        self._wake.set()
        if not self._registered.wait(patience_s):
            raise ExternalError(f"the ResourceManager does not answer: {self._trouble or 'no reason'}", retry=True)

    def standing(self) -> Standing:
        """The state of the application: no containers once the attempt is over. Waits briefly for the registration.

        Raises ExternalError if the attempt is not registered then.
        """
        self._registered.wait(STANDING_SECONDS)
        registration = self._registration
        if registration is None:
            raise ExternalError("the ApplicationMaster is not registered yet", retry=True)
        with self._lock:
            held = () if self._over else self._roster.listed()
            leaving = frozenset(self._leaving)
            return Standing(held, registration.queue, self._headroom, registration.maximum, leaving)

    def nodes(self) -> list[str]:
        """The host names of the nodes that have containers."""
        with self._lock:
            return sorted({host_of(each.node) for each in self._roster.listed() if each.node})

    def request(self, number: int, launch: Launch) -> None:
        """Requests a container, unless that number was requested before. launch: its command.

        Raises ExternalError for an attempt that is over.
        """
        if self._over:
            raise ExternalError(f"the application is over: {self._over}")
        with self._lock:
            if self._roster.requested(number):
                self._launches[number] = launch
                self._machine.request(number)
        self._wake.set()

    def release(self, number: int) -> None:
        """Ends a container, or withdraws its request; forgets one that has ended."""
        with self._lock:
            held = self._roster.released(number)
            self._launches.pop(number, None)
            if held is not None and held.container:
                self._machine.release(held.container)
            elif held is not None:
                self._machine.withdraw(number)
        self._wake.set()

    def finish(self, status: FinalStatus, message: str, staging: str | None) -> None:
        """Ends the application, and deletes its staging folder. Raises ExternalError."""
        self._stop_thread()
        link = self._link or MasterLink(self._config.jvm, self._tokens)
        self._link = link
        if staging is not None:
            # before the end: YARN may kill this process once it has confirmed that
            try:
                link.delete_folder(staging, self._config.credentials("").tokens)
            except HeadraceError as error:
                LOG.warning("the staging folder stays, until the next start: %s", error.message)
        link.finish(status, message, "" if self._address is None else self._address.url)

    def close(self) -> None:
        """Ends thread and JVM, not the application. Idempotent."""
        self._stop_thread()
        if self._link is not None:
            self._link.close()
            self._link = None

    @property
    def jvm_pid(self) -> int | None:
        """The JVM's process."""
        link = self._link
        return None if link is None else link.jvm.pid

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures, pause_s = 0, 0.0
        while not self._closing.is_set():
            self._wake.clear()
            try:
                self._step()
                failures, pause_s, self._trouble = 0, 0.0, ""
            except AttemptOverError as error:
                self._end(error.message)
                return
            except HeadraceError as error:
                failures += isinstance(error, JvmLostError)
                pause_s = BACKOFF.next_s(pause_s)
                self._note(error)
                if failures >= JVM_STARTS_MAX:
                    self._end(f"the JVM has died {failures} times: {error.message}")
                    return
                self._closing.wait(pause_s)
                continue
            except Exception as error:
                # a defect: without this thread the attempt would be nobody's until YARN gives it up
                LOG.exception("the ApplicationMaster has failed")
                self._end(f"internal error: {error}")
                return
            with self._lock:
                is_eager = self._machine.is_eager
            self._wake.wait(EAGER_SECONDS if is_eager else IDLE_SECONDS)

    def _step(self) -> None:
        """One exchange with the ResourceManager."""
        try:
            link = self._opened()
            if self._address is not None:
                if self._registration is None:
                    self._take(link.register(self._address))
                self._allocate(link)
        except NotRegisteredError:
            self._register_again()
        except JvmLostError:
            self._drop_link()
            raise

    def _opened(self) -> MasterLink:
        if self._link is None:
            self._link = MasterLink(self._config.jvm, self._tokens)
            LOG.info("the JVM of the ApplicationMaster runs: pid %d", self._link.jvm.pid)
        return self._link

    def _take(self, registration: Registration) -> None:
        with self._lock:
            self._roster.kept(registration.kept)
        self._tokens.update(registration.tokens)
        self._registration = registration
        self._registered.set()
        LOG.info("registered at the ResourceManager; %d containers of an earlier attempt", len(registration.kept))

    def _register_again(self) -> None:
        """After a restart of the ResourceManager."""
        LOG.warning("the ResourceManager was restarted: registering again")
        assert self._link is not None and self._address is not None, "an answer came through them"
        self._take(self._link.register(self._address))
        with self._lock:
            self._machine.registered_again()

    def _allocate(self, link: MasterLink) -> None:
        with self._lock:
            call = self._machine.next_call()
        received = link.allocate(call, self._config.containers)
        self._tokens.update(received.tokens)
        with self._lock:
            granted = self._machine.answered(received.answer)
            for allocation in granted:
                self._roster.granted(allocation)
            self._roster.ended(received.answer.ended)
            self._headroom = received.answer.headroom
            self._note_nodes(received.answer.nodes)
        for allocation in granted:
            self._starters.submit(self._start_container, allocation)

    def _note_nodes(self, nodes: Mapping[str, bool]) -> None:
        for node, is_leaving in nodes.items():
            if is_leaving:
                LOG.info("node %s is being decommissioned: its workers are drained", node)
                self._leaving.add(node)
            else:
                self._leaving.discard(node)

    def _note(self, error: HeadraceError) -> None:
        if self._trouble != error.message:
            self._trouble = error.message
            LOG.warning("the ApplicationMaster tries again: %s", error.message)

    def _end(self, reason: str) -> None:
        self._over = reason
        self._on_over(reason)
        self._drop_link()

    # ---- in a starter's thread ---------------------------------------------------------------------------------------

    def _start_container(self, allocation: Allocation) -> None:
        with self._lock:
            launch = self._launches.pop(allocation.number, None)
        if launch is None:
            return  # released meanwhile
        try:
            self._start_by_any_jvm(allocation, launch)
        except Exception as error:
            LOG.warning("container %s is not started: %s", allocation.container, error)
            with self._lock:
                self._roster.failed(allocation.number, str(error))
                # it may run all the same if only the answer was lost
                self._machine.release(allocation.container)
            return
        with self._lock:
            self._roster.started(allocation.number)

    def _start_by_any_jvm(self, allocation: Allocation, launch: Launch) -> None:
        """Starts a container, by the next JVM if one dies meanwhile."""
        for _ in range(JVM_STARTS_MAX):
            link = self._link
            try:
                if link is not None:
                    link.start(allocation, launch, self._config.credentials(host_of(allocation.node)))
                    return
            except JvmLostError:
                pass
            except RefusedError as error:
                # the answer to the JVM before was lost
                if _STARTED_BEFORE in error.message:
                    return
                raise
            if self._closing.wait(START_AGAIN_SECONDS):
                break
        raise ExternalError("the JVM that would start it is gone")

    # ---- of any thread -----------------------------------------------------------------------------------------------

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _stop_thread(self) -> None:
        self._closing.set()
        self._wake.set()
        self._starters.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
