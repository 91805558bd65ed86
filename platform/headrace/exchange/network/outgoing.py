"""The outgoing half of the exchange: one connection to a peer's slot, and the outlets that share it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import polars as pl

from headrace.core.errors import HeadraceError, InternalError
from headrace.core.signals import Element
from headrace.exchange.edge.rows import Rows
from headrace.exchange.mailbox import TaskCancelledError
from headrace.exchange.network import wire
from headrace.exchange.network.dialling import Address, Callee, dial
from headrace.exchange.network.encryption import Encryption
from headrace.exchange.network.handshake import Identity
from headrace.exchange.network.link import Link, LinkTimes
from headrace.exchange.outlet import Outlet
from headrace.exchange.stopwatch import Stopwatch


class Connection:
    """A connection to the slot `peer_slot` of the attempt, established and authenticated when the constructor returns.

    timeout_ms  for connecting and the handshake, with retries, because the peer may not be deployed yet
    encryption  TLS for TCP connections; None: none
    on_lost     the reading thread calls it once if the peer is lost; not after `close` or `cancel`

    Raises UnreachableError without a listener, ExternalError if the peer refuses or is not the slot it should be.
    """

    def __init__(
        self,
        address: Address | tuple[str, int, str],
        identity: Identity,
        peer_slot: int,
        timeout_ms: int,
        on_lost: Callable[[HeadraceError], None],
        *,
        times: LinkTimes | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        place = Address(*address)
        peer = f"slot {peer_slot} at {place}"
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._outlets: list[_RemoteOutlet] = []
        self._cancelled = False
        self._over: HeadraceError | TaskCancelledError | None = None
        sock = dial(Callee(place, peer_slot, peer), identity, timeout_ms / 1_000, encryption=encryption)
        self._link = Link(sock, peer, times or LinkTimes(), self._on_frame, self._on_end)
        self._thread = threading.Thread(target=self._link.run, name=f"exchange-to-{peer_slot}", daemon=True)
        self._thread.start()

    def outlet(self, task: str, channel: int) -> Outlet:
        """The sending end of a channel of the mailbox of `task` in the peer's slot; at most one per channel."""
        with self._lock:
            outlet = _RemoteOutlet(self._link, len(self._outlets), self._changed, self.raise_if_over)
            self._outlets.append(outlet)
        self._link.send(outlet.number, wire.encode_open(wire.ChannelName(task, channel)))
        return outlet

    @property
    def waited_ms(self) -> float:
        """How long senders have waited for credit so far, over all outlets, in ms."""
        with self._lock:
            return sum(outlet.waited_ms for outlet in self._outlets)

    def raise_if_over(self) -> None:
        """Raises TaskCancelledError after `cancel` or a goodbye, and the error of a loss after a loss."""
        if self._cancelled:
            raise TaskCancelledError
        if self._over is not None:
            raise self._over

    def _on_frame(self, header: wire.Header, payload: wire.Buffer) -> None:
        if header.type is not wire.FrameType.CREDIT:
            raise InternalError(f"malformed stream: {header.type.name} from a slot that reads")
        credit = wire.decode_credit(payload)
        with self._lock:
            if header.channel >= len(self._outlets):
                raise InternalError(f"malformed stream: credit for channel {header.channel}, which was not opened")
            self._outlets[header.channel].credit = credit
            self._changed.notify_all()

    def _on_end(self, loss: HeadraceError | None) -> None:
        with self._lock:
            self._over = loss or TaskCancelledError()
            unexpected = loss is not None and not self._cancelled
            self._changed.notify_all()
        if unexpected and loss is not None:
            self._on_lost(loss)

    def cancel(self) -> None:
        """Makes every waiting and every later `put` of its outlets raise TaskCancelledError. Idempotent."""
        with self._lock:
            self._cancelled = True
            self._changed.notify_all()

    def close(self) -> None:
        """Sends a goodbye, ends the thread and closes the socket. Idempotent."""
        self._link.close(wire.FrameType.CANCEL if self._cancelled else wire.FrameType.BYE)
        self._thread.join()


class _RemoteOutlet:
    """The sending end of one channel. Implements `Outlet`. Sends rows only within the reader's credit."""

    def __init__(
        self, link: Link, number: int, changed: threading.Condition, raise_if_over: Callable[[], None]
    ) -> None:
        self.number = number
        self.credit: wire.Credit | None = None
        """The newest credit from the receiver; set under the connection's lock."""
        self._link = link
        self._changed = changed
        self._raise_if_over = raise_if_over
        self._encoder = wire.BatchEncoder()
        self._rows = 0
        self._bytes = 0
        self._waited = Stopwatch()

    @property
    def waited_ms(self) -> float:
        """How long this sender has waited for credit so far, in ms."""
        return self._waited.ms

    def put(self, element: Element | Rows) -> None:
        """Sends in order. A batch waits for credit, and is sent in pieces if it exceeds the bounds; a signal needs no
        credit."""
        match element:
            case Rows():
                self._put_rows(element)
            case pl.DataFrame():
                self._put_rows(Rows.all_of(element))
            case _:
                self._raise_if_over()
                self._link.send(self.number, wire.encode_signal(element))

    def _put_rows(self, rows: Rows) -> None:
        begin, end = 0, rows.height
        while True:
            # the bounds may be others for each piece
            height = self._wait_for_credit().bounds.piece_rows(end, rows.bytes)
            if height >= end - begin:
                self._send(rows.slice(begin, height) if begin else rows)
                return
            self._send(rows.slice(begin, height))
            begin += height

    def _wait_for_credit(self) -> wire.Credit:
        with self._changed:
            self._raise_if_over()
            if (credit := self._usable()) is not None:
                return credit
            with self._waited.running():
                while (credit := self._usable()) is None:
                    self._changed.wait()
                    self._raise_if_over()
            return credit

    def _usable(self) -> wire.Credit | None:
        credit = self.credit
        # sent minus acknowledged: rows on the wire and in the receiver's mailbox
        if credit is None or not credit.bounds.has_room(self._rows - credit.rows, self._bytes - credit.bytes):
            return None
        return credit

    def _send(self, piece: Rows) -> None:
        for frame in self._encoder.encode(piece):
            if frame.type is wire.FrameType.DATA:
                self._rows += piece.height
                self._bytes += len(frame.payload)
            self._link.send(self.number, frame)
