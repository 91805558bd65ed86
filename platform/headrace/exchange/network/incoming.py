"""The incoming half of the exchange: a slot's listening sockets, and the peers that send to its mailboxes.

The outgoing half is `outgoing`. One thread accepts connections, and each incoming connection has a reading thread. A
reading thread appends to mailboxes and never waits for room in them: the credits that a subtask sends when it takes
rows limit the sender instead.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.core.errors import ExternalError, HeadraceError, InternalError, UnreachableError
from headrace.core.network.entrance import Entrance
from headrace.exchange.edge.adaptive_bounds import ChannelBounds
from headrace.exchange.mailbox import Mailbox, TaskCancelledError
from headrace.exchange.network import wire
from headrace.exchange.network.dialling import Address, prepare_tcp
from headrace.exchange.network.encryption import PLAIN_REFUSED, Encryption, is_plain_call
from headrace.exchange.network.handshake import HandshakeSocket, Identity, Kind, challenge
from headrace.exchange.network.link import Link, LinkTimes
from headrace.exchange.network.stream import shut

CONNECTIONS_MAX = 1_024
"""Most incoming connections at once; a further one is closed immediately."""
UNPROVEN_MAX = 64
"""Most unauthenticated connections among them. A further one displaces the oldest one that has sent no greeting, or, if
all have sent one, the oldest (`core.network.entrance`)."""
HANDSHAKE_S = 5.0
"""Time limit of a caller's handshake, which is a few hundred bytes."""
DEPLOY_WAIT_S = 2.0
"""How long a connection is kept while this slot's attempt is unknown, in seconds. Then the callee sends NOT_YET, and
the caller connects again."""
_UNIX_PATH_MAX = 100
_ACCEPT_PAUSE_S = 0.05


class Listener:
    """A slot's listening sockets, open before the slot has an attempt. A caller that connects before `serve` waits for
    up to DEPLOY_WAIT_S, then receives NOT_YET.

    unix_folder  folder of the Unix socket; None, or a path that is too long for a socket: TCP only
    encryption   TLS for TCP connections; None: none
    """

    def __init__(
        self,
        host: str,
        unix_folder: Path | None,
        *,
        times: LinkTimes | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        self._times = times or LinkTimes()
        self.encryption = encryption
        self._lock = threading.Lock()
        self._served = threading.Condition(self._lock)
        self._attempt: _Attempt | None = None
        self._closed = False
        self._incoming: set[_Incoming] = set()
        self._entrance: Entrance[_Incoming] = Entrance(UNPROVEN_MAX)
        self._sockets = [_listening_tcp(host)]
        path = _unix_path(unix_folder)
        if path is not None:
            self._sockets.append(_listening_unix(path))
        self.address = Address(host, self._sockets[0].getsockname()[1], str(path or ""))
        """Where to connect."""
        self._wake_out, self._wake_in = socket.socketpair()
        self._thread = threading.Thread(target=self._accept_all, name="exchange-accept", daemon=True)
        self._thread.start()

    def serve(
        self,
        identity: Identity,
        mailboxes: Mapping[str, Mailbox] | Callable[[str], Mailbox],
        on_lost: Callable[[HeadraceError], None],
    ) -> None:
        """Admits peers of this attempt from now on, including those that wait; called once per listener.

        mailboxes  task -> this slot's mailbox of it
        on_lost    a reading thread calls it once per lost peer; not after `close`
        """
        find = mailboxes.__getitem__ if isinstance(mailboxes, Mapping) else mailboxes
        with self._lock:
            assert self._attempt is None, "a slot runs one attempt"
            self._attempt = _Attempt(identity, find, on_lost)
            self._served.notify_all()

    def _accept_all(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (*self._sockets, self._wake_out):
                selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._wake_out:
                        return
                    self._accept(next(each for each in self._sockets if each is key.fileobj))

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except OSError:
            # the caller has closed the connection, or this process has no file descriptor left: then a retry without a
            # pause would use a whole core
            time.sleep(_ACCEPT_PAUSE_S)
            return
        if sock.family != socket.AF_UNIX:
            prepare_tcp(sock)
        with self._lock:
            if self._closed or len(self._incoming) >= CONNECTIONS_MAX:
                sock.close()
                return
            incoming = _Incoming(sock, self)
            self._incoming.add(incoming)
            leaves = self._entrance.enter(incoming)
        if leaves is not None:
            leaves.cut()
        incoming.thread.start()

    def wait_for_attempt(self, incoming: _Incoming) -> _Attempt | None:
        """The attempt, for a caller that has sent its greeting; None if it is not known within DEPLOY_WAIT_S."""
        deadline_s = time.monotonic() + DEPLOY_WAIT_S
        with self._lock:
            self._entrance.greeted(incoming)
            while self._attempt is None and not self._closed:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or not self._served.wait(left_s):
                    break
            return None if self._closed else self._attempt

    @property
    def times(self) -> LinkTimes:
        """The times of the connections."""
        return self._times

    def proven(self, incoming: _Incoming) -> None:
        """Records that a caller has authenticated."""
        with self._lock:
            self._entrance.leave(incoming)

    def left(self, incoming: _Incoming) -> None:
        """Records that a connection has ended."""
        with self._lock:
            self._entrance.leave(incoming)
            self._incoming.discard(incoming)

    def close(self) -> None:
        """Sends a goodbye to every peer, ends all threads, closes the sockets and removes the socket file.
        Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._served.notify_all()
        self._wake_in.send(b"x")
        self._thread.join()
        with self._lock:
            incoming = list(self._incoming)
        for each in incoming:
            each.close()
        for sock in (*self._sockets, self._wake_in, self._wake_out):
            sock.close()
        if self.address.unix_path:
            Path(self.address.unix_path).unlink(missing_ok=True)


class _Attempt:
    """The attempt that a listener serves."""

    def __init__(
        self, identity: Identity, mailbox: Callable[[str], Mailbox], on_lost: Callable[[HeadraceError], None]
    ) -> None:
        self.identity = identity
        self.mailbox = mailbox
        self.on_lost = on_lost


class _Incoming:
    """One connection from a peer. Its own thread does the handshake and then reads frames."""

    def __init__(self, sock: socket.socket, listener: Listener) -> None:
        self._socket = sock
        self._listener = listener
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._closed = False
        self._attempt: _Attempt | None = None
        self._channels: dict[int, _IncomingChannel] = {}
        self.thread = threading.Thread(target=self._run, name="exchange-from", daemon=True)

    def _run(self) -> None:
        try:
            link = self._let_in()
            if link is not None:
                self.thread.name = f"exchange-{link.peer}"
                link.run()
        finally:
            self._socket.close()
            self._listener.left(self)

    def _let_in(self) -> Link | None:
        """The handshake; None if the caller is rejected."""
        # a caller that closes the connection during the handshake, or is too slow, connects again: nothing to report
        with contextlib.suppress(OSError):
            peer = self._secured()
            if peer is None:
                return None
            try:
                greeting = peer.receive_greeting()
                attempt = self._listener.wait_for_attempt(self)
                if attempt is None:
                    peer.send(Kind.NOT_YET, b"no attempt was deployed there yet")
                    return None
                proof = challenge(peer, greeting, attempt.identity)
            except ExternalError as error:
                peer.send(Kind.REFUSED, error.message.encode())
                return None
            self._attempt = attempt
            return self._opened(peer, f"slot {greeting.slot}", proof)
        return None

    def _secured(self) -> HandshakeSocket | None:
        """The connection after its TLS handshake; None if the caller uses no TLS: it was sent the reason."""
        deadline_s = time.monotonic() + HANDSHAKE_S
        encryption = self._listener.encryption
        if encryption is None or self._socket.family == socket.AF_UNIX:
            return HandshakeSocket(self._socket, HANDSHAKE_S)
        self._socket.settimeout(HANDSHAKE_S)
        if is_plain_call(self._socket):
            peer = HandshakeSocket(self._socket, HANDSHAKE_S)
            peer.receive_greeting()
            peer.send(Kind.REFUSED, PLAIN_REFUSED.encode())
            return None
        with self._lock:
            # under the lock: `cut`, in another thread, must shut down the socket that is in use, either the plain one
            # or its TLS wrapper
            self._socket = secure = encryption.called(self._socket)
        channel = encryption.answer(secure, HANDSHAKE_S)
        return HandshakeSocket(secure, max(deadline_s - time.monotonic(), 0.0), channel)

    def _opened(self, peer: HandshakeSocket, name: str, proof: bytes) -> Link | None:
        """Admits the caller: from now on both send frames, and the connection ends with a goodbye. None if the
        listener was closed meanwhile."""
        # before LET_IN is sent: once the caller is admitted, a new caller must not displace it
        self._listener.proven(self)
        with self._lock:
            # `close` came first: it found no link, so it has shut the socket down
            if self._closed:
                return None
            peer.send(Kind.LET_IN, proof)
            self._link = link = Link(self._socket, name, self._listener.times, self._on_frame, self._on_end)
        return link

    def _on_frame(self, header: wire.Header, payload: wire.Buffer) -> None:
        if self._attempt is None or self._link is None:
            raise InternalError(f"malformed stream: {header.type.name} before the greeting")
        if header.type is wire.FrameType.OPEN:
            if header.channel in self._channels:
                raise InternalError(f"malformed stream: channel {header.channel} is opened twice")
            self._channels[header.channel] = _IncomingChannel(self._attempt, self._link, header.channel, payload)
            return
        channel = self._channels.get(header.channel)
        if channel is None:
            raise InternalError(f"malformed stream: {header.type.name} for a channel that was not opened")
        channel.on_frame(header.type, payload)

    def _on_end(self, loss: HeadraceError | None) -> None:
        if loss is None or self._attempt is None or self._closed:
            return
        # a caller whose handshake timed out while LET_IN was in transit has opened no channel, so no rows are lost
        if self._channels or isinstance(loss, InternalError):
            self._attempt.on_lost(loss)

    def close(self) -> None:
        """Sends a goodbye to an admitted peer, and ends the thread."""
        with self._lock:
            self._closed = True
            link = self._link
        if link is not None:
            link.close()
        else:
            self.cut()
        self.thread.join()

    def cut(self) -> None:
        """Shuts down the connection of a caller that is not admitted, without a goodbye."""
        with self._lock, contextlib.suppress(OSError):
            shut(self._socket, socket.SHUT_RDWR)


class _IncomingChannel:
    """The receiving end of one channel: decodes frames, appends to the mailbox, sends credit for rows that were
    taken."""

    def __init__(self, attempt: _Attempt, link: Link, number: int, payload: wire.Buffer) -> None:
        name = wire.decode_open(payload)
        try:
            mailbox = attempt.mailbox(name.task)
        except KeyError as error:
            raise InternalError(f"there is no mailbox of task {name.task!r} in this slot") from error
        if name.channel >= mailbox.channels:
            raise InternalError(f"the mailbox of task {name.task!r} has no channel {name.channel}")
        self._mailbox = mailbox
        self._channel = name.channel
        self._link = link
        self._number = number
        self._decoder = wire.BatchDecoder()
        self._rows = 0
        self._bytes = 0
        bounds = mailbox.feed_remotely(name.channel, self._on_drained)
        self._reported = wire.Credit(0, 0, bounds)
        link.send_if_up(number, wire.encode_credit(self._reported))

    def on_frame(self, kind: wire.FrameType, payload: wire.Buffer) -> None:
        """Handles a frame for this channel; called by the reading thread."""
        # once the attempt is torn down, frames are discarded until the peer's goodbye
        with contextlib.suppress(TaskCancelledError):
            match kind:
                case wire.FrameType.SCHEMA:
                    self._decoder.on_schema(payload)
                case wire.FrameType.DATA:
                    self._mailbox.put(self._channel, self._decoder.decode(payload), len(payload))
                case _:
                    signal = wire.decode_signal(kind, payload)
                    if signal is None:
                        raise InternalError(f"malformed stream: {kind.name} from a slot that sends")
                    self._mailbox.put(self._channel, signal)

    def _on_drained(self, rows: int, size: int, bounds: ChannelBounds) -> None:
        """Sends a credit if a quarter of the bounds was taken since the last one, or the bounds changed; called by the
        subtask's thread. A sender without credit has filled the bounds, so it always receives one when they drain."""
        self._rows += rows
        self._bytes += size
        reported = self._reported
        due = (
            4 * (self._rows - reported.rows) >= reported.bounds.rows_max
            or 4 * (self._bytes - reported.bytes) >= reported.bounds.bytes_max
            or bounds != reported.bounds
        )
        if due:
            self._reported = wire.Credit(self._rows, self._bytes, bounds)
            self._link.send_if_up(self._number, wire.encode_credit(self._reported))


def _listening_tcp(host: str) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, 0), family=family, backlog=128)
    except OSError as error:
        raise UnreachableError(
            f"no port can be opened on {host}: {error}", remedy="is it an address of this host?"
        ) from error


def _unix_path(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    path = folder / f"slot-{os.getpid()}-{uuid.uuid4().hex[:8]}.sock"
    return path if len(os.fsencode(path)) <= _UNIX_PATH_MAX else None


def _listening_unix(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        path.chmod(0o600)
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise ExternalError(f"the socket {path} cannot be made: {error}") from error
    return sock
