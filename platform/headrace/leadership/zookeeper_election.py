"""An election in ZooKeeper: ephemeral sequential nodes, of which the lowest is elected.

    <path>/candidates/<token>-0000000007   one for each candidate, gone when its session ends
    <path>/leader                          the address of the one that leads, gone likewise

    waiting ── own node is the lowest ──> elected ── SUSPENDED ──> in doubt ── CONNECTED, node there ──> elected
       │ LOST: a new node                    │ LOST, node gone        │ LOST, node gone, or the session's time passed
       └──> waiting                          └────────> lost <────────┘

kazoo's own election is not used: it does not interrupt a leader whose session has ended. kazoo calls the listener in a
thread of its own, which must not block; calls to ZooKeeper are made in the elector's thread. `_epoch` counts lost
sessions: a result from before a loss is ignored after it.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING

from headrace.core.errors import ExternalError, UserError
from headrace.leadership.elector import Elected, ElectorEvent, InDoubt, Leader, Lost, not_elected
from headrace.leadership.zookeeper_client import ZooKeeperAddress, unreachable, zookeeper_client

if TYPE_CHECKING:
    from kazoo.client import KazooClient

LOG = logging.getLogger("headrace.leadership")
SESSION_MS_MAX = 40_000
"""A server's default limit (20 ticks of 2 s). It would shorten longer sessions without a word, and a leader would then
believe in its session longer than the server."""
START_SECONDS = 15.0
ANSWER_SECONDS = 5.0
"""How long a request of another thread waits for ZooKeeper."""
LOOK_SECONDS = 1.0
"""Interval at which the elector's thread reads its nodes if no watch has fired."""


class _Phase(Enum):
    WAITING = auto()
    ELECTED = auto()
    IN_DOUBT = auto()
    LOST = auto()


class ZooKeeperLocator:
    """Finds the leader by the node that it publishes. Connects with the first use; keeps what it found last for times
    when ZooKeeper does not answer."""

    def __init__(self, address: ZooKeeperAddress, environment: Mapping[str, str], session_ms: int) -> None:
        self._address = address
        self._client = zookeeper_client(address, environment, session_ms)
        self._starting = threading.Lock()
        self._started = False
        self._last: Leader | None = None

    def find(self) -> Leader | None:
        """The leader that published its address last. Raises ExternalError if ZooKeeper has never answered."""
        self._start()
        try:
            self._last = _published(self._client, self._address)
        except ExternalError:
            if self._last is None:
                raise
        return self._last

    def close(self) -> None:
        """Ends the session."""
        _end(self._client)

    def _start(self) -> None:
        with self._starting:
            if not self._started:
                _start(self._client, self._address)
                self._started = True


class ZooKeeperElector:
    """A candidate. session_ms: of its ZooKeeper session, at most `SESSION_MS_MAX`."""

    def __init__(self, address: ZooKeeperAddress, environment: Mapping[str, str], session_ms: int) -> None:
        if session_ms > SESSION_MS_MAX:
            raise UserError(
                f"a ZooKeeper session of {session_ms} ms is longer than servers keep one",
                remedy=f"set at most {SESSION_MS_MAX // 1_000}s",
            )
        self._address = address
        self._lease_ms = session_ms
        self._client = zookeeper_client(address, environment, session_ms)
        self._token = secrets.token_hex(8)
        self._on_event: Callable[[ElectorEvent], None] = lambda _event: None
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._phase = _Phase.WAITING
        self._epoch = 0
        self._doubt_s = 0.0
        self._node = ""
        self._thread = threading.Thread(target=self._run, name="headrace-elector", daemon=True)

    @property
    def lease_ms(self) -> int:
        """The time of its session, in ms."""
        return self._lease_ms

    def campaign(self, on_event: Callable[[ElectorEvent], None]) -> None:
        """Begins the campaign. Raises ExternalError if ZooKeeper does not answer; it may be called again then."""
        self._on_event = on_event
        self._client.add_listener(self._on_state)  # a set: once, however often this is called
        _start(self._client, self._address)
        self._thread.start()

    def is_elected(self) -> bool:
        """Whether its node, the lowest when it was elected, is still there."""
        with self._lock:
            if self._phase not in {_Phase.ELECTED, _Phase.IN_DOUBT}:
                return False
        with self._answered():
            # a server that is cut off from the others would answer with what it knew last
            self._client.sync_async(self._node).get(timeout=ANSWER_SECONDS)
            return self._client.exists_async(self._node).get(timeout=ANSWER_SECONDS) is not None

    def announce(self, leader: Leader) -> None:
        """Publishes the address in a node of this session. Raises ExternalError."""
        from kazoo.exceptions import NoNodeError

        path = f"{self._address.path}/leader"
        with self._answered():
            earlier = self._client.exists_async(path).get(timeout=ANSWER_SECONDS)
            change = self._client.transaction()
            # A process that was suspended since it was elected has another session, and another leader has published
            # its address: then its own node is gone, and nothing of this is done.
            change.check(self._node, -1)
            if earlier is not None:
                # of a leader before, whose session may not have ended yet
                change.delete(path)
            change.create(path, leader.encoded(), ephemeral=True)
            results = change.commit_async().get(timeout=ANSWER_SECONDS)
        if isinstance(results[0], NoNodeError):
            raise not_elected()
        if failed := [each for each in results if isinstance(each, Exception)]:
            raise unreachable(self._address, failed[-1])

    @contextlib.contextmanager
    def _answered(self) -> Iterator[None]:
        """Raises ExternalError for requests inside that ZooKeeper does not answer, or refuses."""
        from kazoo.exceptions import KazooException

        try:
            yield
        except (KazooException, self._client.handler.timeout_exception) as error:
            raise unreachable(self._address, error) from error

    def find(self) -> Leader | None:
        """The leader that published its address last. Raises ExternalError."""
        return _published(self._client, self._address)

    def close(self) -> None:
        """Ends the session, and with it both nodes."""
        self._closing.set()
        self._changed.set()
        _end(self._client)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(START_SECONDS)

    # ---- in kazoo's thread -------------------------------------------------------------------------------------------

    def _on_state(self, state: str) -> None:
        from kazoo.client import KazooState

        with self._lock:
            match state:
                case KazooState.SUSPENDED if self._phase is _Phase.ELECTED:
                    self._phase, self._doubt_s = _Phase.IN_DOUBT, time.monotonic()
                    self._on_event(InDoubt("the connection to ZooKeeper is interrupted"))
                case KazooState.LOST:
                    self._epoch += 1
                    self._lose("its session in ZooKeeper has ended")
                case _:
                    pass
        self._changed.set()

    def _lose(self, reason: str) -> None:
        """Ends the campaign of a candidate that was elected. Called with the lock held."""
        if self._phase in {_Phase.ELECTED, _Phase.IN_DOUBT}:
            self._phase = _Phase.LOST
            if not self._closing.is_set():
                self._on_event(Lost(reason))

    # ---- in the elector's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        from kazoo.exceptions import KazooException

        trouble = ""
        while not self._closing.is_set() and self._phase is not _Phase.LOST:
            self._changed.clear()
            try:
                self._step()
                trouble = ""
            except (KazooException, self._client.handler.timeout_exception) as error:
                # the listener receives what has happened to the session; the next step tries again
                if not self._closing.is_set() and trouble != str(error):
                    trouble = str(error)
                    LOG.warning("the election cannot be reached: %s", trouble or type(error).__name__)
            self._changed.wait(LOOK_SECONDS)
        # the servers may have stood still, and kept the session of a candidate that has left: it must end
        _end(self._client)

    def _step(self) -> None:
        with self._lock:
            phase, epoch = self._phase, self._epoch
            if phase is _Phase.IN_DOUBT and time.monotonic() - self._doubt_s >= self._lease_ms / 1_000:
                # the servers have ended the session by now, and this candidate cannot learn it
                self._lose("ZooKeeper has not answered for the time of a session")
                return
        if not self._client.connected:
            return
        if phase is _Phase.WAITING:
            is_first = self._is_first()
            if is_first:
                self._become_elected(epoch)
        elif self._client.exists(self._node, watch=self._on_watch) is None:
            with self._lock:
                self._lose("its node in ZooKeeper is gone")
        elif phase is _Phase.IN_DOUBT:
            self._become_elected(epoch)

    def _become_elected(self, epoch: int) -> None:
        with self._lock:
            # a session that was lost after the node was read has no node
            if self._epoch == epoch and self._phase in {_Phase.WAITING, _Phase.IN_DOUBT}:
                self._phase = _Phase.ELECTED
                self._on_event(Elected())

    def _is_first(self) -> bool:
        """Whether this candidate's node is the lowest; else watches the one before it."""
        folder = f"{self._address.path}/candidates"
        self._client.ensure_path(folder)
        # by its token: a node whose creation was not answered is found again
        if (own := self._own(folder)) is None:
            self._client.create(f"{folder}/{self._token}-", b"", ephemeral=True, sequence=True)
            if (own := self._own(folder)) is None:
                return False
        self._node = f"{folder}/{own}"
        before = [each for each in self._client.get_children(folder) if _number(each) < _number(own)]
        if not before:
            return True
        nearest = max(before, key=_number)
        if self._client.exists(f"{folder}/{nearest}", watch=self._on_watch) is None:
            self._changed.set()
        return False

    def _own(self, folder: str) -> str | None:
        found = [each for each in self._client.get_children(folder) if each.startswith(f"{self._token}-")]
        # of two after an unanswered creation the lower one counts; the other one ends with the session
        return min(found, key=_number, default=None)

    def _on_watch(self, _event: object) -> None:
        self._changed.set()


def _published(client: KazooClient, address: ZooKeeperAddress) -> Leader | None:
    """The leader that the node names; None: there is no node. Raises ExternalError."""
    from kazoo.exceptions import KazooException, NoNodeError

    path = f"{address.path}/leader"
    try:
        # without a limit it would wait until ZooKeeper is back
        data, _ = client.get_async(path).get(timeout=ANSWER_SECONDS)
    except NoNodeError:
        return None
    except (KazooException, client.handler.timeout_exception) as error:
        raise unreachable(address, error) from error
    return Leader.decoded(data, f"{path} in ZooKeeper")


def _number(node: str) -> int:
    return int(node.rpartition("-")[2])


def _start(client: KazooClient, address: ZooKeeperAddress) -> None:
    """Connects. After an ExternalError it may be called again."""
    try:
        client.start(timeout=START_SECONDS)
    except Exception as error:
        # kazoo raises errors of many kinds here: time, TLS, SASL
        with contextlib.suppress(Exception):
            client.stop()
        raise unreachable(address, error) from error


def _end(client: KazooClient) -> None:
    with contextlib.suppress(Exception):
        client.stop()
        client.close()
