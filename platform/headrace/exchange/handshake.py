"""How two slots greet: who calls, for which attempt of which job, and whether the other one lets it in.

    caller    magic | version u16 | length u32 | JSON {job, attempt, token, slot, peer_slot}
    answer    magic | accepted u8 | length u32 | reason as text

Blocking sockets with the timeout that the caller of these functions has set. Frames follow an accepted greeting.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
from dataclasses import dataclass

from headrace.core.errors import ExternalError

MAGIC = b"HDRX"
VERSION = 1
_GREETING, _ANSWER = struct.Struct("<4sHI"), struct.Struct("<4sBI")
_TEXT_MAX = 16 * 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """The attempt that a slot runs, and the slot's index in it. token: the attempt's secret."""

    job: str
    attempt: int
    token: str
    slot: int


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a caller says: who it is, and the index of the slot that it means to reach."""

    identity: Identity
    peer_slot: int


def send_greeting(sock: socket.socket, greeting: Greeting) -> None:
    """The caller's first words."""
    who = greeting.identity
    text = json.dumps(
        {"job": who.job, "attempt": who.attempt, "token": who.token, "slot": who.slot, "peer_slot": greeting.peer_slot}
    ).encode()
    sock.sendall(_GREETING.pack(MAGIC, VERSION, len(text)) + text)


def receive_greeting(sock: socket.socket) -> Greeting:
    """Reads a caller's first words. Raises ExternalError for what is no greeting of this version, OSError."""
    magic, version, length = _GREETING.unpack(receive_exactly(sock, _GREETING.size))
    if magic != MAGIC or length > _TEXT_MAX:
        raise ExternalError("this is no headrace slot calling")
    if version != VERSION:
        raise ExternalError(f"version {VERSION} of the exchange is spoken here, not {version}")
    try:
        match json.loads(receive_exactly(sock, length)):
            case {
                "job": str(job),
                "attempt": int(attempt),
                "token": str(token),
                "slot": int(slot),
                "peer_slot": int(peer),
            }:
                return Greeting(Identity(job, attempt, token, slot), peer)
    except ValueError as error:
        raise ExternalError("a greeting that is no JSON") from error
    raise ExternalError("a greeting that names no attempt")


def refusal(greeting: Greeting, here: Identity) -> str | None:
    """Why the caller is not let in, or None. Its token is looked at last, so that a late caller is told so."""
    caller = greeting.identity
    if caller.job != here.job:
        return f"another job runs here than {caller.job}"
    if caller.attempt != here.attempt:
        return f"attempt {here.attempt} of the job runs here, not attempt {caller.attempt}"
    if greeting.peer_slot != here.slot:
        return f"this is slot {here.slot}, not {greeting.peer_slot}"
    if not hmac.compare_digest(caller.token.encode(), here.token.encode()):
        return "the token of the attempt is another one"
    return None


def send_answer(sock: socket.socket, reason: str | None) -> None:
    """Lets the caller in (no reason), or not."""
    text = (reason or "").encode()[:_TEXT_MAX]
    sock.sendall(_ANSWER.pack(MAGIC, reason is None, len(text)) + text)


def receive_answer(sock: socket.socket) -> str | None:
    """None: let in; otherwise the reason. Raises ExternalError, OSError."""
    magic, accepted, length = _ANSWER.unpack(receive_exactly(sock, _ANSWER.size))
    if magic != MAGIC or length > _TEXT_MAX:
        raise ExternalError("no headrace slot answers there")
    text = receive_exactly(sock, length).decode(errors="replace")
    return None if accepted else text


def receive_exactly(sock: socket.socket, count: int) -> bytes:
    """`count` bytes. Raises ConnectionError at an early end, OSError."""
    data = bytearray()
    while len(data) < count:
        got = sock.recv(count - len(data))
        if not got:
            raise ConnectionError("the connection ended inside of the greeting")
        data += got
    return bytes(data)
