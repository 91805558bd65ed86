"""Two slots prove that they have the attempt's token: what crosses the wire, and what strangers at both ends get."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.core.errors import ExternalError
from headrace.core.network.mutual_proof import NONCE_BYTES, PROOF_BYTES
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network.handshake import MAGIC, Greeting, HandshakeSocket, Identity, Kind, challenge, introduce
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.outgoing import Connection
from support.processes.running import WAIT_SECONDS

TOKEN = "the attempt's secret"
HERE, THERE = Identity("job", 1, TOKEN, 0), Identity("job", 1, TOKEN, 1)
WAIT_MS = round(WAIT_SECONDS * 1_000)


class Recorded(HandshakeSocket):
    """Remembers what it sent."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, WAIT_SECONDS)
        self.sent = b""

    def _send(self, data: bytes) -> None:
        self.sent += data
        super()._send(data)


@contextmanager
def callee(run: Callable[[Recorded], None]) -> Iterator[Recorded]:
    """The caller's end of a connection whose other end `run` serves."""
    mine, theirs = socket.socketpair()
    thread = threading.Thread(target=run, args=(Recorded(theirs),))
    with mine, theirs:
        thread.start()
        try:
            yield Recorded(mine)
        finally:
            mine.close()
            thread.join()


@contextmanager
def serving(identity: Identity = THERE) -> Iterator[Listener]:
    """A slot that listens at a TCP port."""
    listener = Listener("127.0.0.1", None)
    listener.serve(identity, {"t": Mailbox((0,), ChannelBounds(), merge_rows_max=1)}, lambda loss: None)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def stranger(listener: Listener) -> Iterator[Recorded]:
    with socket.create_connection(listener.address[:2], timeout=WAIT_SECONDS) as sock:
        yield Recorded(sock)


def let_in(peer: Recorded) -> None:
    """As a slot does."""
    peer.send(Kind.LET_IN, challenge(peer, peer.receive_greeting(), THERE))


def test_both_prove_and_neither_sends_the_token() -> None:
    served: list[Recorded] = []

    def serve(peer: Recorded) -> None:
        served.append(peer)
        let_in(peer)

    with callee(serve) as caller:
        assert introduce(caller, HERE, 1) is None
    for end in (caller, *served):
        assert end.sent
        assert TOKEN.encode() not in end.sent
        assert json.dumps(TOKEN).encode() not in end.sent


@pytest.mark.parametrize("proof", [bytes(PROOF_BYTES), None, b"short"], ids=["made-up", "sent-back", "short"])
def test_a_callee_without_the_token_gets_no_row(proof: bytes | None) -> None:
    """It listens on the port of a slot that is gone: the caller goes no further, and has not sent the token."""
    rest: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as port:

        def listen() -> None:
            sock, _ = port.accept()
            with sock:
                peer = Recorded(sock)
                peer.receive_greeting()
                peer.send(Kind.CHALLENGE, bytes(NONCE_BYTES))
                _, proven = peer.receive()
                peer.send(Kind.LET_IN, proven if proof is None else proof)
                with contextlib.suppress(OSError):
                    rest.append(sock.recv(1_000))

        thread = threading.Thread(target=listen)
        thread.start()
        with pytest.raises(ExternalError, match=r"did not prove|does not greet"):
            Connection(("127.0.0.1", port.getsockname()[1], ""), HERE, 1, WAIT_MS, lambda loss: None)
        thread.join()
    assert rest in ([b""], [])


def test_a_stranger_gets_no_proof() -> None:
    """It knows job, attempt and slots, and learns a nonce."""
    with serving() as listener, stranger(listener) as peer:
        peer.send_greeting(Greeting("job", 1, 0, 1, bytes(NONCE_BYTES)))
        kind, nonce = peer.receive()
        assert (kind, len(nonce)) == (Kind.CHALLENGE, NONCE_BYTES)
        peer.send(Kind.PROOF, bytes(PROOF_BYTES))
        assert peer.receive() == (Kind.REFUSED, b"the token of the attempt is another one")


def test_a_proof_that_was_recorded_is_worth_nothing_again() -> None:
    with serving() as listener:
        with stranger(listener) as peer:
            assert introduce(peer, HERE, 1) is None
            recorded = peer.sent
        with stranger(listener) as again:
            again._send(recorded)
            assert again.receive()[0] is Kind.CHALLENGE
            assert again.receive() == (Kind.REFUSED, b"the token of the attempt is another one")


def test_a_proof_for_one_slot_is_none_for_another() -> None:
    """Who is called by slot 0 cannot be slot 0 at slot 2 with what it was sent."""

    def relay(peer: Recorded) -> None:
        with serving(Identity("job", 1, TOKEN, 2)) as listener, stranger(listener) as other:
            greeting = peer.receive_greeting()
            other.send_greeting(Greeting(greeting.job, greeting.attempt, greeting.slot, 2, greeting.nonce))
            peer.send(*other.receive())
            other.send(*peer.receive())
            peer.send(*other.receive())

    with callee(relay) as caller, pytest.raises(ExternalError, match="token of the attempt is another one"):
        introduce(caller, HERE, 1)


def test_a_caller_of_the_version_before_is_told_in_its_own_words() -> None:
    """Its answer is `magic | accepted u8 | length u32 | reason`, as ours for a refusal."""
    with serving() as listener, socket.create_connection(listener.address[:2], timeout=WAIT_SECONDS) as old:
        text = json.dumps({"job": "job", "attempt": 1, "token": TOKEN, "slot": 0, "peer_slot": 1}).encode()
        old.sendall(struct.pack("<4sHI", MAGIC, 1, len(text)) + text)
        magic, accepted, length = struct.unpack("<4sBI", old.recv(9, socket.MSG_WAITALL))
        assert (magic, accepted) == (MAGIC, 0)
        assert old.recv(length, socket.MSG_WAITALL) == b"version 2 of the exchange is spoken here, not 1"


@pytest.mark.parametrize(
    "text", [b"[", b"[" * 4_000, b"{}", b'{"job": 1}', b'{"job": "j", "attempt": 1, "nonce": "x"}']
)
def test_a_greeting_that_is_none_is_refused(text: bytes) -> None:
    with serving() as listener, stranger(listener) as peer:
        peer._send(struct.pack("<4sHI", MAGIC, 2, len(text)) + text)
        assert peer.receive()[0] is Kind.REFUSED
