"""The handshake of two slots: the caller names its attempt, and both prove that they have the attempt's token.

    caller    magic | version u16 | length u32 | JSON {job, attempt, slot, peer_slot, nonce}
    callee    CHALLENGE: its nonce
    caller    PROOF
    callee    LET_IN: its own proof

All messages except the greeting are `magic | kind u8 | length u32 | payload`. Instead of its messages the callee may
send REFUSED or NOT_YET with a reason. Neither side sends the token (`mutual_proof`): the caller may have reached an
unrelated process on a reused port, and an unrelated process may connect to the callee. The caller proves first, so a
caller without the token never receives a proof from a callee. The caller sends frames only after the callee's proof.
The callee compares job, attempt and slot before any proof: a caller of another attempt has another token, and the
reason for the refusal should name the attempt.

Blocking sockets; each handshake has one deadline for all of its bytes.
"""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from dataclasses import dataclass
from enum import IntEnum

from headrace.core.errors import ExternalError
from headrace.core.network.frames import receive_exactly
from headrace.core.network.mutual_proof import NONCE_BYTES, PROOF_BYTES, MutualProof, Role

MAGIC = b"HDRX"
VERSION = 2
_PROTOCOL = f"headrace exchange {VERSION}"
Channel = tuple[str, ...]
"""With TLS the fingerprints of both certificates, the caller's first: a proof is valid only between these two."""
PLAIN: Channel = ()
_GREETING, _MESSAGE = struct.Struct("<4sHI"), struct.Struct("<4sBI")
_BYTES_MAX = 4 * 1024


class Kind(IntEnum):
    """Messages after the greeting. REFUSED and LET_IN have the numbers and the form of version 1, so that its callers
    can read the reason for a refusal."""

    REFUSED = 0
    LET_IN = 1
    CHALLENGE = 2
    PROOF = 3
    NOT_YET = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """A slot's attempt and its index in that attempt. token: the attempt's secret."""

    job: str
    attempt: int
    token: str
    slot: int


@dataclass(frozen=True, slots=True)
class Greeting:
    """A caller's first message. peer_slot: index of the slot that it calls."""

    job: str
    attempt: int
    slot: int
    peer_slot: int
    nonce: bytes

    def challenged(self, nonce: bytes, channel: Channel) -> MutualProof:
        """The facts that both sides prove, once the callee has sent its nonce."""
        facts = (self.job, str(self.attempt), str(self.slot), str(self.peer_slot), *channel)
        return MutualProof(_PROTOCOL, facts, caller_nonce=self.nonce, callee_nonce=nonce)


class HandshakeSocket:
    """A connected socket during the handshake. Every call raises TimeoutError after `timeout_s` in total,
    ConnectionError at an early end, OSError.

    channel  the channel binding of the proofs; both sides must see the same
    """

    def __init__(self, sock: socket.socket, timeout_s: float, channel: Channel = PLAIN) -> None:
        self._socket = sock
        self._deadline_s = time.monotonic() + timeout_s
        self.channel = channel

    def send(self, kind: Kind, payload: bytes) -> None:
        """Sends a message."""
        self._send(_MESSAGE.pack(MAGIC, kind, len(payload)) + payload)

    def send_greeting(self, greeting: Greeting) -> None:
        """Sends the caller's first message."""
        document = {
            "job": greeting.job,
            "attempt": greeting.attempt,
            "slot": greeting.slot,
            "peer_slot": greeting.peer_slot,
            "nonce": greeting.nonce.hex(),
        }
        text = json.dumps(document).encode()
        self._send(_GREETING.pack(MAGIC, VERSION, len(text)) + text)

    def receive(self) -> tuple[Kind, bytes]:
        """The next message. Raises ExternalError for an invalid one."""
        magic, kind, length = _MESSAGE.unpack(self._receive_exactly(_MESSAGE.size))
        if magic != MAGIC or length > _BYTES_MAX or kind not in Kind.__members__.values():
            raise ExternalError("this is no headrace slot")
        return Kind(kind), self._receive_exactly(length)

    def receive_greeting(self) -> Greeting:
        """A caller's first message. Raises ExternalError unless it is a greeting of this version."""
        magic, version, length = _GREETING.unpack(self._receive_exactly(_GREETING.size))
        if magic != MAGIC or length > _BYTES_MAX:
            raise ExternalError("this is no headrace slot calling")
        if version != VERSION:
            raise ExternalError(f"version {VERSION} of the exchange is spoken here, not {version}")
        try:
            match json.loads(self._receive_exactly(length)):
                case {
                    "job": str(job),
                    "attempt": int(attempt),
                    "slot": int(slot),
                    "peer_slot": int(peer),
                    "nonce": str(nonce),
                }:
                    return Greeting(job, attempt, slot, peer, bytes.fromhex(nonce))
        except (ValueError, RecursionError) as error:
            raise ExternalError("a greeting that is no JSON") from error
        raise ExternalError("a greeting that names no attempt")

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._left_s())
        self._socket.sendall(data)

    def _receive_exactly(self, count: int) -> bytes:
        data = receive_exactly(self._receive_into, count)
        if data is None:
            raise ConnectionError("the connection ended inside of the greeting")
        return data

    def _receive_into(self, view: memoryview) -> int:
        # the timeout is set before each read, so a peer that sends byte by byte cannot extend the deadline
        self._socket.settimeout(self._left_s())
        return self._socket.recv_into(view)

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the greeting took too long")
        return left_s


def refusal(greeting: Greeting, here: Identity) -> str | None:
    """The reason to refuse a caller before any proof; None: the handshake continues."""
    if greeting.job != here.job:
        return f"another job runs here than {greeting.job}"
    if greeting.attempt != here.attempt:
        return f"attempt {here.attempt} of the job runs here, not attempt {greeting.attempt}"
    if greeting.peer_slot != here.slot:
        return f"this is slot {here.slot}, not {greeting.peer_slot}"
    return None


def challenge(peer: HandshakeSocket, greeting: Greeting, here: Identity) -> bytes:
    """The callee's part of the handshake after the greeting. Returns the proof to send with LET_IN. Raises
    ExternalError with the reason for a refusal, OSError."""
    if (reason := refusal(greeting, here)) is not None:
        raise ExternalError(reason)
    nonce = secrets.token_bytes(NONCE_BYTES)
    peer.send(Kind.CHALLENGE, nonce)
    kind, proof = peer.receive()
    terms = greeting.challenged(nonce, peer.channel)
    if kind is not Kind.PROOF or not terms.accepts(here.token, Role.CALLER, proof):
        raise ExternalError("the token of the attempt is another one")
    return terms.proof(here.token, Role.CALLEE)


def introduce(peer: HandshakeSocket, caller: Identity, peer_slot: int) -> str | None:
    """The caller's part of the handshake. Returns None once both sides have proven that they have the token, or the
    callee's reason why the caller should connect again later.

    Raises ExternalError if the callee refuses, or does not prove that it has the token; OSError.
    """
    greeting = Greeting(caller.job, caller.attempt, caller.slot, peer_slot, secrets.token_bytes(NONCE_BYTES))
    peer.send_greeting(greeting)
    nonce = _expected(peer, Kind.CHALLENGE, NONCE_BYTES)
    if isinstance(nonce, str):
        return nonce
    terms = greeting.challenged(nonce, peer.channel)
    peer.send(Kind.PROOF, terms.proof(caller.token, Role.CALLER))
    proof = _expected(peer, Kind.LET_IN, PROOF_BYTES)
    if isinstance(proof, str):
        return proof
    if not terms.accepts(caller.token, Role.CALLEE, proof):
        raise ExternalError("it did not prove that it has the attempt's token", retry=True)
    return None


def _expected(peer: HandshakeSocket, expected: Kind, size: int) -> bytes | str:
    """The payload of the callee's next message; a text is its reason why the caller should connect again later."""
    kind, payload = peer.receive()
    if kind is Kind.NOT_YET:
        return payload.decode(errors="replace")
    if kind is Kind.REFUSED:
        raise ExternalError(f"it refused the connection: {payload.decode(errors='replace')}", retry=True)
    if kind is not expected or len(payload) != size:
        raise ExternalError("it does not greet as a headrace slot does", retry=True)
    return payload
