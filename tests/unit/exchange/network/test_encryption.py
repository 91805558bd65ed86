"""Rows between slots by TLS: both ways at once, goodbyes and losses as without it, and who is refused."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.signals import EndOfInput, Watermark
from headrace.exchange.mailbox import ChannelBounds, Mailbox
from headrace.exchange.network import incoming
from headrace.exchange.network.dialling import Address
from headrace.exchange.network.encryption import Encryption
from headrace.exchange.network.handshake import HandshakeSocket, Identity, introduce
from headrace.exchange.network.incoming import Listener
from headrace.exchange.network.link import LinkTimes
from headrace.exchange.network.outgoing import Connection
from support.certificates import DAY, Authority, tls_files_of
from support.processes.running import WAIT_SECONDS, wait_until

HERE, THERE = Identity("job", 1, "token", 0), Identity("job", 1, "token", 1)
CALM = LinkTimes(ping_ms=40, lost_ms=240_000, linger_ms=60_000)
WAIT_MS = round(WAIT_SECONDS * 1_000)
ROWS = 50_000


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def encryption(authority: Authority) -> Encryption:
    return Encryption(tls_files_of(authority, "one"))


class Reader:
    """A slot that serves one mailbox, of task `t`."""

    def __init__(self, encryption: Encryption | None) -> None:
        self.mailbox = Mailbox((0,), ChannelBounds(rows_max=3 * ROWS), merge_rows_max=ROWS)
        self.lost: list[HeadraceError] = []
        self.listener = Listener("127.0.0.1", None, times=CALM, encryption=encryption)
        self.listener.serve(THERE, {"t": self.mailbox}, self.lost.append)

    def connect(
        self, encryption: Encryption | None, *, host: str = "127.0.0.1", timeout_ms: int = WAIT_MS
    ) -> Connection:
        address = replace_host(self.listener.address, host)
        return Connection(address, HERE, 1, timeout_ms, self.lost.append, times=CALM, encryption=encryption)


def replace_host(address: Address, host: str) -> Address:
    return Address(host, address.port)


@contextmanager
def reading(encryption: Encryption | None) -> Iterator[Reader]:
    reader = Reader(encryption)
    try:
        yield reader
    finally:
        reader.listener.close()


def test_rows_of_every_size_arrive_in_order_while_credits_go_back(encryption: Encryption, authority: Authority) -> None:
    frames = [pl.DataFrame({"a": range(n, n + rows), "text": ["x" * 100] * rows}) for n, rows in ((0, 1), (1, ROWS))]
    sent = [frame for _ in range(20) for frame in frames]
    received: list[pl.DataFrame] = []

    def read(mailbox: Mailbox) -> None:
        while True:
            for element in mailbox.take():
                if isinstance(element, pl.DataFrame):
                    received.append(element)
                elif isinstance(element, EndOfInput):
                    return

    with reading(encryption) as reader:
        thread = threading.Thread(target=read, args=(reader.mailbox,))
        thread.start()
        connection = reader.connect(Encryption(tls_files_of(authority, "two")))
        outlet = connection.outlet("t", 0)
        for frame in sent:
            outlet.put(frame)
        outlet.put(EndOfInput())
        thread.join()
        connection.close()
        assert not reader.lost
    assert pl.concat(received).equals(pl.concat(sent))


def test_what_goes_over_the_wire_is_encrypted(encryption: Encryption) -> None:
    seen = bytearray()
    with reading(encryption) as reader, socket.create_server(("127.0.0.1", 0)) as relay:

        def pass_on() -> None:
            inner, _ = relay.accept()
            with inner, socket.create_connection(reader.listener.address[:2]) as outer:
                back = threading.Thread(target=copy, args=(outer, inner))
                back.start()
                copy(inner, outer)
                back.join()

        def copy(source: socket.socket, target: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65_536):
                    seen.extend(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=pass_on)
        thread.start()
        place = Address("127.0.0.1", relay.getsockname()[1])
        connection = Connection(place, HERE, 1, WAIT_MS, reader.lost.append, times=CALM, encryption=encryption)
        connection.outlet("t", 0).put(pl.DataFrame({"a": ["a row that is nobody's business"]}))
        assert reader.mailbox.take()
        connection.close()
        thread.join()
        assert not reader.lost
    assert b"business" not in seen and b"job" not in seen


def test_a_dead_peer_is_a_loss(encryption: Encryption) -> None:
    lost: list[HeadraceError] = []
    with reading(encryption) as reader:
        sock = socket.create_connection(reader.listener.address[:2], timeout=WAIT_SECONDS)
        secure, channel = encryption.call(sock, "127.0.0.1", WAIT_SECONDS)
        assert introduce(HandshakeSocket(secure, WAIT_SECONDS, channel), HERE, 1) is None
        # no goodbye, neither ours nor that of TLS; nor has it opened a channel: that is no loss
        secure.close()
        connection = reader.connect(encryption)
        connection.outlet("t", 0).put(Watermark(1))
        assert reader.mailbox.take() == [Watermark(1)]
        connection.close()
        assert not lost and not reader.lost


def test_a_proof_is_bound_to_both_certificates(encryption: Encryption) -> None:
    with reading(encryption) as reader:
        sock = socket.create_connection(reader.listener.address[:2], timeout=WAIT_SECONDS)
        secure, (own, _) = encryption.call(sock, "127.0.0.1", WAIT_SECONDS)
        with secure, pytest.raises(ExternalError, match="token of the attempt"):
            # as if another one with a certificate of the authority had passed the proof on
            introduce(HandshakeSocket(secure, WAIT_SECONDS, (own, "another one's")), HERE, 1)


def test_a_caller_of_another_authority_is_refused(encryption: Encryption, tmp_path: Path) -> None:
    stranger = tls_files_of(Authority(tmp_path, "strange"), "stranger")
    with reading(encryption) as reader:
        with pytest.raises(ExternalError, match="certificate is not valid"):
            reader.connect(Encryption(stranger))
        # it trusts the callee, and is not trusted
        trusting = replace(stranger, ca=tmp_path / "authority.pem")
        with pytest.raises(ExternalError, match="does not accept our certificate") as caught:
            reader.connect(Encryption(trusting))
        assert "signed by" in str(caught.value)
        assert not reader.lost


def test_an_expired_certificate_is_refused(encryption: Encryption, authority: Authority) -> None:
    expired = Encryption(tls_files_of(authority, "old", lasts=-DAY / 2))
    with reading(expired) as reader, pytest.raises(ExternalError, match="certificate has expired"):
        reader.connect(encryption)
    with reading(encryption) as reader, pytest.raises(ExternalError, match="does not accept our certificate"):
        reader.connect(expired)


def test_a_callee_without_tls_and_a_caller_without_it_are_told_of_the_flags(encryption: Encryption) -> None:
    with reading(None) as reader, pytest.raises(ExternalError, match="speaks no TLS") as caught:
        reader.connect(encryption)
    assert "--tls-cert" in str(caught.value)
    with reading(encryption) as reader, pytest.raises(ExternalError, match="rows go by TLS here") as caught:
        reader.connect(None)
    assert "--tls-cert" in str(caught.value)


def test_a_name_has_to_be_in_the_certificate(encryption: Encryption, authority: Authority) -> None:
    with reading(encryption) as reader, pytest.raises(ExternalError, match="certificate is not valid"):
        reader.connect(encryption, host="localhost")
    with reading(Encryption(tls_files_of(authority, "named", host="localhost"))) as reader:
        reader.connect(encryption, host="localhost").close()


def test_a_stranger_that_begins_no_handshake_is_let_go(encryption: Encryption, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "HANDSHAKE_S", 0.2)
    with reading(encryption) as reader, socket.create_connection(reader.listener.address[:2]) as stranger:
        stranger.sendall(b"\x16\x03")
        wait_until(
            lambda: not any(thread.name == "exchange-from" for thread in threading.enumerate()), "it is waited for"
        )
