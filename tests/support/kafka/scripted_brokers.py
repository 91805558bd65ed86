"""Brokers as threads on loopback, which answer with kafka-python's messages: what one real broker cannot show."""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer.transaction import EndTxnResponse

from support.processes.running import WAIT_SECONDS

API = ApiVersionsResponse.ApiVersion
BROKER = MetadataResponse.MetadataResponseBroker
TOPIC = MetadataResponse.MetadataResponseTopic
PLACE = FindCoordinatorResponse.Coordinator
VERSIONS, METADATA, FIND, END = 18, 3, 10, 26
NAMES = ("headrace-j-out-1-0-0", "headrace-j-out-1-1-0")
CONTROLLER = 1


class ScriptedBrokers:
    """Brokers 1, the controller, and 2. `silent`: hang up at the first EndTxn; `asked`: what each one got, in order;
    `topics`: name -> id."""

    def __init__(self) -> None:
        self.listeners = {number: socket.create_server(("127.0.0.1", 0)) for number in (1, 2)}
        self.ports = {number: listener.getsockname()[1] for number, listener in self.listeners.items()}
        self.asked: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.silent: set[int] = set()
        self.topics: dict[str, uuid.UUID] = {}
        self._free = threading.Event()
        self._free.set()
        self._is_held = threading.Event()
        self._threads: list[threading.Thread] = []
        for number in list(self.listeners):
            self._serve_at(number)

    @property
    def bootstrap(self) -> str:
        """All of their addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def stop(self, number: int) -> None:
        """Nobody listens at the broker's port any more; the others name it as before."""
        # wakes the thread that accepts
        self.listeners[number].shutdown(socket.SHUT_RDWR)
        self.listeners.pop(number).close()

    def start(self, number: int) -> None:
        """Listens at the broker's port again."""
        self.listeners[number] = socket.create_server(("127.0.0.1", self.ports[number]))
        self._serve_at(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """No request is answered meanwhile."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def wait_held(self) -> None:
        """Waits until a request is held."""
        assert self._is_held.wait(WAIT_SECONDS)

    def _serve_at(self, number: int) -> None:
        self._threads.append(threading.Thread(target=self._accept, args=(number,)))
        self._threads[-1].start()

    def _accept(self, number: int) -> None:
        served: list[threading.Thread] = []
        listener = self.listeners[number]
        try:
            while True:
                accepted, _ = listener.accept()
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
                if not self._free.is_set():
                    self._is_held.set()
                    self._free.wait()
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
            topics = [
                TOPIC(error_code=0, name=name, topic_id=number, is_internal=False, partitions=[])
                for name, number in self.topics.items()
            ]
            return MetadataResponse(
                brokers=rows, cluster_id="c", controller_id=CONTROLLER, topics=topics, version=version
            )
        if key == FIND:
            rows = [
                PLACE(key=name, node_id=each, host="127.0.0.1", port=self.ports[each], error_code=0, error_message=None)
                for each, name in enumerate(NAMES, start=1)
            ]
            return FindCoordinatorResponse(throttle_time_ms=0, coordinators=rows, version=version)
        return EndTxnResponse(throttle_time_ms=0, error_code=0, version=version)

    def close(self) -> None:
        """Stops all of them."""
        for number in list(self.listeners):
            self.stop(number)
        for thread in self._threads:
            thread.join()
