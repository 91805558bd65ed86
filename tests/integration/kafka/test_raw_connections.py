"""Connections of the committer's client to a real broker: what is refused, what ends, and nothing is left open."""

from __future__ import annotations

import gc
import socket
import threading
import time
from dataclasses import replace

import pytest

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.requests.client import NETWORK_EXCEPTION, BrokerClient
from headrace_connectors.kafka.requests.connection import BrokerConnection, ConnectionBrokenError, ConnectionSettings
from headrace_connectors.kafka.requests.requests import describe_transactions, metadata
from headrace_dev.broker import EmbeddedBroker
from support.processes.running import WAIT_SECONDS

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

ANSWER_MS = int(WAIT_SECONDS * 1_000)


def test_a_client_with_answers_under_way_is_closed_at_once(broker: EmbeddedBroker) -> None:
    client = BrokerClient(broker.bootstrap, ConnectionSettings(), answer_timeout_ms=ANSWER_MS)
    (node,) = client.brokers()
    assert client.describe({node: ["nobody"]})["nobody"].code not in (0, NETWORK_EXCEPTION)
    deadline = time.monotonic() + WAIT_SECONDS
    for _ in range(3):
        client._connection(node).send(describe_transactions(["nobody"]), deadline)
    client.close()
    del client
    # a socket that is open now is a warning, which fails this test
    gc.collect()


def test_the_first_address_that_answers_is_enough(broker: EmbeddedBroker) -> None:
    client = BrokerClient(f"127.0.0.1:1,{broker.bootstrap}", ConnectionSettings(), answer_timeout_ms=ANSWER_MS)
    assert len(client.brokers()) == 1
    assert not client.broken
    client.close()


def test_a_broker_that_hung_up_while_nothing_was_asked_is_connected_to_again(broker: EmbeddedBroker) -> None:
    """Brokers close connections that are idle for ten minutes."""
    client = BrokerClient(broker.bootstrap, ConnectionSettings(), answer_timeout_ms=ANSWER_MS)
    (node,) = client.brokers()
    client.describe({node: ["nobody"]})
    for connection in list(client._connections.values()):
        connection._sock.shutdown(socket.SHUT_RDWR)
    assert client.describe({node: ["nobody"]})["nobody"].code not in (0, NETWORK_EXCEPTION)
    assert client.brokers() == (node,)
    assert not client.broken
    client.close()


def test_a_connection_that_breaks_under_way_has_no_answer(broker: EmbeddedBroker) -> None:
    client = BrokerClient(broker.bootstrap, ConnectionSettings(), answer_timeout_ms=ANSWER_MS)
    (node,) = client.brokers()
    client.describe({node: ["nobody"]})
    client._places[node] = replace(client._places[node], port=1)
    client._connections[node].close()
    assert client.describe({node: ["nobody"]})["nobody"].code == NETWORK_EXCEPTION
    assert client.broken
    assert "no connection to" in client.last_failure()
    client.close()


class Scripted:
    """A listener on loopback that sends one text to who connects, then hangs up or says no more."""

    def __init__(self, said: bytes, *, hangs_up: bool) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(said, hangs_up))
        self._thread.start()

    def _run(self, said: bytes, hangs_up: bool) -> None:
        accepted, _ = self._listener.accept()
        with accepted:
            accepted.recv(1_000)
            accepted.sendall(said)
            if not hangs_up:
                self._over.wait()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()


@pytest.mark.parametrize(
    ("said", "hangs_up", "seconds", "match"),
    [
        (b"", True, WAIT_SECONDS, "closed the connection"),
        (b"\0\0\0\x08\0", True, WAIT_SECONDS, "closed the connection"),
        (b"\x7f\xff\xff\xff", False, WAIT_SECONDS, "an answer of 2147483647 bytes"),
        (b"HTTP/1.1 400 Bad", False, WAIT_SECONDS, "an answer of 1213486160 bytes"),
        (b"\0\0\0\x04\0\0\0\x09", False, WAIT_SECONDS, "another request"),
        (b"\0\0\0\x04\0\0\0\x01", False, WAIT_SECONDS, "are left"),
        (b"", False, 0.2, "timed out"),
    ],
)
def test_what_is_no_broker(said: bytes, seconds: float, match: str, *, hangs_up: bool) -> None:
    listener = Scripted(said, hangs_up=hangs_up)
    with pytest.raises(ConnectionBrokenError, match=match):
        BrokerConnection("127.0.0.1", listener.port, ConnectionSettings(), deadline=time.monotonic() + seconds)
    listener.close()
    gc.collect()


def test_a_broker_without_the_requests_is_too_old(broker: EmbeddedBroker) -> None:
    client = BrokerClient(broker.bootstrap, ConnectionSettings(), answer_timeout_ms=ANSWER_MS)
    (connection,) = client._connections.values()
    known = connection._versions
    # as Kafka 2.8 has it
    connection._versions = known | {10: (0, 3)}
    with pytest.raises(UserError, match="does not have the requests") as caught:
        client.find(["x"])
    assert "version 3.0 or later" in str(caught.value.remedy)
    assert connection.version(metadata()) == metadata().highest
    client.close()


def test_nobody_there() -> None:
    with pytest.raises(ExternalError, match=r"no Kafka broker answers at 127\.0\.0\.1:1: ") as caught:
        BrokerClient("127.0.0.1:1", ConnectionSettings(), answer_timeout_ms=1_000)
    assert caught.value.retry
