"""The client's half of SASL logins: PLAIN, SCRAM, OAUTHBEARER and GSSAPI. No I/O, except by GSSAPI's library.

A mechanism returns the bytes of its first step, then a response to each challenge of the broker. It returns None when
it has nothing more to send and has verified the broker's proof.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Protocol

ITERATIONS_MAX = 1_000_000
"""Most iterations of SCRAM: more would cost the client seconds of CPU."""
_ITERATIONS_MIN = 4_096
"""Fewest iterations, by RFC 5802 and Kafka."""


class LoginRefusedError(Exception):
    """The login cannot succeed: the broker rejected it, or violated the mechanism."""


class SaslMechanism(Protocol):
    """One login. Used once."""

    name: str

    def first(self) -> bytes:
        """The client's first message, before any challenge."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """The response to a challenge; None: the login is complete. Raises LoginRefusedError."""
        ...


class Plain:
    """RFC 4616: user and password in clear text."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._content = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """See SaslMechanism."""
        return self._content

    def respond(self, challenge: bytes) -> bytes | None:
        """See SaslMechanism."""
        return None


class Scram:
    """RFC 5802: proves the password without sending it, and verifies that the broker knows it too.

    name    SCRAM-SHA-256 or SCRAM-SHA-512
    nonce   for tests
    """

    def __init__(self, name: str, username: str, password: str, *, nonce: str = "") -> None:
        self.name = name
        self._hash = name.removeprefix("SCRAM-").replace("-", "").lower()
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        # both characters are special in SCRAM messages (RFC 5802 section 5.1)
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={escaped},r={self._nonce}"
        self._expected_proof: bytes | None = None

    def first(self) -> bytes:
        """See SaslMechanism."""
        return f"n,,{self._first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """See SaslMechanism."""
        try:
            fields = _fields(challenge)
            if self._expected_proof is not None:
                self._check_server(fields)
                return None
            return self._final(fields, challenge.decode())
        except (KeyError, ValueError) as cause:
            raise LoginRefusedError(f"the broker's answer is no {self.name} message") from cause

    def _final(self, fields: Mapping[str, str], server_first: str) -> bytes:
        nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        # RFC 5802 section 5.1: an answer without the client's part may be a replay
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginRefusedError("the broker's nonce does not continue the client's")
        if not _ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise LoginRefusedError(f"the broker asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        # biws: the base64 of "n,,", no channel binding
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = self._keyed(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = self._keyed(stored_key, message)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._expected_proof = self._keyed(self._keyed(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check_server(self, fields: Mapping[str, str]) -> None:
        if "e" in fields:
            raise LoginRefusedError(f"the broker refused the login: {fields['e']}")
        assert self._expected_proof is not None
        if not hmac.compare_digest(base64.b64decode(fields["v"]), self._expected_proof):
            raise LoginRefusedError("the broker does not know the password")

    def _keyed(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(challenge: bytes) -> dict[str, str]:
    pairs = (part.partition("=") for part in challenge.decode().split(","))
    return {name: value for name, _, value in pairs}


class OAuthBearer:
    """RFC 7628: a token from an issuer.

    extensions   further names and values for the broker
    """

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        self._content = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01"

    def first(self) -> bytes:
        """See SaslMechanism."""
        return self._content.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """See SaslMechanism. A challenge is an error in JSON, which the client must acknowledge with a 0x01 byte."""
        return b"\x01" if challenge else None


class Gssapi:
    """RFC 4752: Kerberos, by the Python package gssapi. Credentials are those of the process.

    gssapi    the imported package
    service   the brokers' service name
    host      the broker's host name
    """

    name = "GSSAPI"
    _NO_PROTECTION = b"\x01"

    def __init__(self, gssapi: Any, service: str, host: str) -> None:
        self._whom = f"{service}@{host}"
        name = gssapi.Name(self._whom, name_type=gssapi.NameType.hostbased_service)
        target = name.canonicalize(gssapi.MechType.kerberos)
        self._context = gssapi.SecurityContext(name=target, usage="initiate")
        self._over = False

    def first(self) -> bytes:
        """See SaslMechanism."""
        return self._context.step(None) or b""

    def respond(self, challenge: bytes) -> bytes | None:
        """See SaslMechanism."""
        if self._over:
            return None
        if not self._context.complete:
            return self._context.step(challenge) or b""
        # security layers that the broker offers, and its maximum message size; Kafka uses no layer
        offered = self._context.unwrap(challenge).message
        self._over = True
        chosen = self._NO_PROTECTION + offered[1:] + self._whom.encode()
        wrapped: bytes = self._context.wrap(chosen, False).message  # noqa: FBT003 - not encrypted
        return wrapped
