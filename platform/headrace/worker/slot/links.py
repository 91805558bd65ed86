"""A slot's links to the other slots of its attempt: peers that it sends to, and peers that send to it.

Connecting waits for peers that are not deployed yet, so it is done in a thread for each of them, which leaves the
attempt's own thread free to hear a cancel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue

from headrace.core.errors import HeadraceError
from headrace.exchange.mailbox import Mailbox
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.outgoing import Connection
from headrace.exchange.outlet import Outlet
from headrace.rpc.deployment import Deployment, PeerDocument
from headrace.rpc.messages import Deploy

CONNECT_TIMEOUT_MS = 60_000
"""How long a peer may take to be deployed after this slot was."""
_LOOK_UP_S = 0.05


class SlotLinks:
    """All links of one attempt. `on_lost` is called by threads of the exchange, not after `close` or `cancel`."""

    def __init__(
        self, deploy: Deploy, deployment: Deployment, listener: Listener, on_lost: Callable[[HeadraceError], None]
    ) -> None:
        self._identity = Identity(deploy.job, deploy.attempt, deploy.token, deployment.slot)
        self._peers = {peer.index: peer for peer in deployment.peers}
        self._listener = listener
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._over = False
        self._connections: dict[int, Connection] = {}

    def open(self, mailboxes: Mapping[str, Mailbox], slots: Iterable[int], check_cancelled: Callable[[], None]) -> None:
        """Lets peers in, and connects to the slots with these indices. `check_cancelled` is called meanwhile, and may
        raise. Raises ExternalError for a peer that is not there or refuses."""
        self._listener.serve(self._identity, mailboxes, self._on_lost)
        results: SimpleQueue[Exception | None] = SimpleQueue()
        wanted = [self._peers[index] for index in slots]
        for peer in wanted:
            name = f"connect-{peer.index}"
            threading.Thread(target=self._connect, args=(peer, results), name=name, daemon=True).start()
        missing = len(wanted)
        while missing:
            check_cancelled()
            try:
                failure = results.get(timeout=_LOOK_UP_S)
            except Empty:
                continue
            if failure is not None:
                raise failure
            missing -= 1

    def _connect(self, peer: PeerDocument, results: SimpleQueue[Exception | None]) -> None:
        try:
            # another host's may have the same path where folders are shared: what lies there is not for this one
            unix_path = peer.unix_path if peer.host == self._listener.address.host else ""
            connection = Connection(
                (peer.host, peer.port, unix_path),
                self._identity,
                peer.index,
                CONNECT_TIMEOUT_MS,
                self._on_lost,
                times=self._listener.times,
                encryption=self._listener.encryption,
            )
        except Exception as error:  # the shell of a thread: the attempt's own raises it
            results.put(error)
            return
        with self._lock:
            late = self._over
            if not late:
                self._connections[peer.index] = connection
        if late:
            connection.close()
        results.put(None)

    def outlet(self, task: str, subtask: int, number: int) -> Outlet:
        """The way to a channel of a subtask in another slot."""
        return self._connections[subtask].outlet(task, number)

    def cancel(self) -> None:
        """Wakes every sender with TaskCancelledError."""
        with self._lock:
            self._over = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.cancel()

    def close(self) -> None:
        """Says goodbye to all peers. Idempotent."""
        with self._lock:
            self._over = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        self._listener.close()
