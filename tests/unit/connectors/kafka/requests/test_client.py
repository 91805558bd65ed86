"""Requests to several brokers at the same time, one of which fails: what one real broker cannot show.

The brokers are threads on loopback that answer with kafka-python's messages. With real ones: `integration/containers`.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer.transaction import EndTxnResponse

from headrace.core.errors import ExternalError
from headrace_connectors.kafka.requests.client import NETWORK_EXCEPTION, BrokerClient, canonical_name
from headrace_connectors.kafka.requests.connection import ConnectionSettings
from headrace_connectors.kafka.requests.requests import Coordinator, EndCall
from headrace_connectors.kafka.requests.sasl import SaslMechanism
from support.processes.running import WAIT_SECONDS

API = ApiVersionsResponse.ApiVersion
BROKER = MetadataResponse.MetadataResponseBroker
PLACE = FindCoordinatorResponse.Coordinator
VERSIONS, METADATA, FIND, END = 18, 3, 10, 26
NAMES = ("headrace-j-out-1-0-0", "headrace-j-out-1-1-0")


class Cluster:
    """Brokers 1 and 2. `silent`: hang up at the first EndTxn; `asked`: what each one got, in order."""

    def __init__(self) -> None:
        self.listeners = {number: socket.create_server(("127.0.0.1", 0)) for number in (1, 2)}
        self.ports = {number: listener.getsockname()[1] for number, listener in self.listeners.items()}
        self.asked: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.silent: set[int] = set()
        self._threads = [threading.Thread(target=self._accept, args=(number,)) for number in self.listeners]
        for thread in self._threads:
            thread.start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[1]}"

    def _accept(self, number: int) -> None:
        served: list[threading.Thread] = []
        try:
            while True:
                accepted, _ = self.listeners[number].accept()
                served.append(threading.Thread(target=self._serve, args=(number, accepted)))
                served[-1].start()
        except OSError:
            for thread in served:
                thread.join()

    def _serve(self, number: int, accepted: socket.socket) -> None:
        with accepted, accepted.makefile("rb") as requests:
            while len(head := requests.read(4)) == 4:
                content = requests.read(struct.unpack(">i", head)[0])
                key, version, correlation = struct.unpack(">hhi", content[:8])
                self.asked[number].append((key, version))
                if key == END and number in self.silent:
                    return
                answer = self._answer(key, version)
                answer.with_header(correlation_id=correlation)
                raw = bytes(answer.encode(header=True))
                accepted.sendall(struct.pack(">i", len(raw)) + raw)

    def _answer(self, key: int, version: int) -> Any:
        if key == VERSIONS:
            ranges = {METADATA: (0, 13), FIND: (0, 6), END: (0, 5)}
            rows = [API(api_key=each, min_version=low, max_version=high) for each, (low, high) in ranges.items()]
            return ApiVersionsResponse(error_code=0, api_keys=rows, version=version)
        if key == METADATA:
            rows = [BROKER(node_id=each, host="127.0.0.1", port=port, rack=None) for each, port in self.ports.items()]
            return MetadataResponse(brokers=rows, cluster_id="c", controller_id=1, topics=[], version=version)
        if key == FIND:
            rows = [
                PLACE(key=name, node_id=each, host="127.0.0.1", port=self.ports[each], error_code=0, error_message=None)
                for each, name in enumerate(NAMES, start=1)
            ]
            return FindCoordinatorResponse(throttle_time_ms=0, coordinators=rows, version=version)
        return EndTxnResponse(throttle_time_ms=0, error_code=0, version=version)

    def close(self) -> None:
        for listener in self.listeners.values():
            # wakes the thread that accepts
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    running = Cluster()
    yield running
    running.close()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[BrokerClient]:
    settings = ConnectionSettings()
    opened = BrokerClient(cluster.bootstrap, settings, answer_timeout_ms=int(WAIT_SECONDS * 1_000))
    yield opened
    opened.close()


def calls(name: str, count: int = 1) -> list[EndCall]:
    return [EndCall(f"{name}{number or ''}", 7, 0, committed=True) for number in range(count)]


def test_kerberos_wants_canonical_names() -> None:
    assert canonical_name("127.0.0.1") == socket.gethostbyaddr("127.0.0.1")[0]
    # one that has no other name keeps its own
    assert canonical_name("no such host") == "no such host"


def test_each_name_is_ended_at_its_broker(cluster: Cluster, client: BrokerClient) -> None:
    assert client.find(NAMES) == {NAMES[0]: Coordinator(0, 1), NAMES[1]: Coordinator(0, 2)}
    asked = {1: calls(NAMES[0], 300), 2: calls(NAMES[1], 300)}
    assert set(client.end(asked).values()) == {0}
    # never in version 5, though the brokers know it: it raises the epoch
    for number in (1, 2):
        assert cluster.asked[number].count((END, 4)) == 300
    assert not client.broken


def test_a_broker_that_hangs_up_costs_only_its_own_answers(cluster: Cluster, client: BrokerClient) -> None:
    cluster.silent.add(2)
    answers = client.end({1: calls(NAMES[0], 3), 2: calls(NAMES[1], 3)})
    assert [answers[call.name] for call in calls(NAMES[0], 3)] == [0, 0, 0]
    assert [answers[call.name] for call in calls(NAMES[1], 3)] == [NETWORK_EXCEPTION] * 3
    assert client.broken
    assert f"127.0.0.1:{cluster.ports[2]} broke" in client.last_failure()


def test_a_broker_that_is_not_known_has_no_answer(client: BrokerClient) -> None:
    assert client.end({9: calls(NAMES[0])}) == {NAMES[0]: NETWORK_EXCEPTION}
    assert client.broken


def test_a_client_that_raised_is_not_used_again(cluster: Cluster) -> None:
    """Answers of other brokers are on their way, and would be taken for those of the next requests."""

    def login(_host: str) -> SaslMechanism:
        raise ExternalError("the provider of tokens is away", retry=True)

    opened = BrokerClient(cluster.bootstrap, ConnectionSettings(), answer_timeout_ms=int(WAIT_SECONDS * 1_000))
    opened._settings = ConnectionSettings(login=login)
    with pytest.raises(ExternalError, match="provider of tokens"):
        opened.end({1: calls(NAMES[0])})
    assert opened.broken
    opened.close()
