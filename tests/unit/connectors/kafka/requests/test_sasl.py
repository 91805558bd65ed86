"""The steps of SASL logins, against the examples of their standards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace_connectors.kafka.requests.sasl import Gssapi, LoginRefusedError, OAuthBearer, Plain, SaslMechanism, Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def scram() -> Scram:
    """As in RFC 7677, 3."""
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_scram_is_as_in_its_standard() -> None:
    login = scram()
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert login.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=100000000"), "100000000 iterations"),
        (b"e=unknown-user", "no SCRAM-SHA-256 message"),
        (b"\xff", "no SCRAM-SHA-256 message"),
    ],
)
def test_a_broker_that_breaks_scram_is_refused(challenge: bytes, said: str) -> None:
    login = scram()
    login.first()
    with pytest.raises(LoginRefusedError, match=said):
        login.respond(challenge)


@pytest.mark.parametrize(
    ("final", "said"),
    [(b"v=" + b"A" * 43 + b"=", "does not know the password"), (b"e=other-error", "refused the login: other-error")],
)
def test_a_broker_has_to_prove_the_password_too(final: bytes, said: str) -> None:
    login = scram()
    login.first()
    login.respond(SERVER_FIRST)
    with pytest.raises(LoginRefusedError, match=said):
        login.respond(final)


def test_names_with_commas_are_escaped_and_nonces_are_new() -> None:
    first, again = (Scram("SCRAM-SHA-512", "a,b=c", "p") for _ in range(2))
    assert first.first().startswith(b"n,,n=a=2Cb=3Dc,r=")
    assert first.first() != again.first()


def test_plain() -> None:
    login: SaslMechanism = Plain("ann", "pässword")
    assert login.first() == "\0ann\0pässword".encode()
    assert login.respond(b"") is None


def test_a_token_with_extensions() -> None:
    """RFC 7628, 3.1; Kafka's extensions (KIP-342) are further pairs."""
    login: SaslMechanism = OAuthBearer("abc.def.", {"trace": "7"})
    assert login.first() == b"n,,\x01auth=Bearer abc.def.\x01trace=7\x01\x01"
    assert login.respond(b"") is None
    # an error has to be acknowledged before the broker says that the login failed
    assert OAuthBearer("t", {}).respond(b'{"status":"invalid_token"}') == b"\x01"


class Kerberos:
    """Stands for the package gssapi: a context that takes two steps."""

    NameType = SimpleNamespace(hostbased_service="hostbased")
    MechType = SimpleNamespace(kerberos="kerberos")

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.complete = False

    def Name(self, whom: str, *, name_type: str) -> Any:  # noqa: N802 - as the package's
        self.seen.append((whom, name_type))
        return SimpleNamespace(canonicalize=lambda mechanism: f"{whom} by {mechanism}")

    def SecurityContext(self, *, name: str, usage: str) -> Kerberos:  # noqa: N802
        self.seen.append((name, usage))
        return self

    def step(self, token: bytes | None) -> bytes | None:
        self.complete = token is not None
        return b"ticket" if token is None else None

    def unwrap(self, content: bytes) -> Any:
        return SimpleNamespace(message=content.removeprefix(b"wrapped "))

    def wrap(self, content: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped " + content)


def test_kerberos_takes_no_protection_layer() -> None:
    """RFC 4752, 3.1: after the context comes the broker's offer of layers, then the choice."""
    package = Kerberos()
    login: SaslMechanism = Gssapi(package, "kafka", "b1")
    assert package.seen == [("kafka@b1", "hostbased"), ("kafka@b1 by kerberos", "initiate")]
    assert login.first() == b"ticket"
    assert login.respond(b"mutual") == b""
    assert login.respond(b"wrapped \x07\x00\x10\x00") == b"wrapped \x01\x00\x10\x00kafka@b1"
    assert login.respond(b"") is None
