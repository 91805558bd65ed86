"""A slot's links to the other slots of its attempt: peers that it sends to, and peers that send to it.

Connecting waits for peers that are not deployed yet. One thread for each peer connects, so that the attempt's own
thread can react to a cancel.
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
"""How long after this slot a peer may be deployed."""
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
        """Accepts peers, and connects to the slots with these indices.

        `check_cancelled` is called about 20 times a second meanwhile, and may raise. Raises ExternalError if a peer
        does not answer in time or refuses.
        """
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
            # A socket path of another host may exist here too (same layout, or a shared folder), but another process
            # listens at it.
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
        except Exception as error:  # the shell of a thread: `open` raises it in the attempt's thread
            results.put(error)
            return
        with self._lock:
            # `cancel` or `close` came while this thread was connecting, and did not see the connection
            late = self._over
            if not late:
                self._connections[peer.index] = connection
        if late:
            connection.close()
        results.put(None)

    def outlet(self, task: str, subtask: int, number: int) -> Outlet:
        """The outlet to a channel of a subtask in another slot."""
        return self._connections[subtask].outlet(task, number)

    def cancel(self) -> None:
        """Wakes every sender with TaskCancelledError."""
        with self._lock:
            self._over = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.cancel()

    def close(self) -> None:
        """Sends a goodbye to all peers and closes the connections and the listener. Idempotent."""
        with self._lock:
            self._over = True
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        self._listener.close()
