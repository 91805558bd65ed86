"""Idle connections to REST: how many are kept, for how long, and whom they keep out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from headrace.coordinator.rest import connections as rest_connections
from headrace.coordinator.rest.connections import WAITING_MAX, bounded_protocol
from headrace.tls.contexts import client_context, rest_context
from headrace.tls.files import TlsFiles
from support.certificates import Authority, tls_files_of
from support.processes.running import WAIT_SECONDS, wait_until

Address = tuple[str, int]


class App:
    """Answers `ok`; to `/slow` only when it is told to."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            self.begun.set()
            while not self.goes_on:
                await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def serving(app: App, tls: ssl.SSLContext | None = None) -> Iterator[Address]:
    config = uvicorn.Config(
        app, port=0, http=bounded_protocol(tls), loop="asyncio", log_level="warning", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="rest")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server listens")
        yield server.servers[0].sockets[0].getsockname()
    finally:
        app.goes_on = True
        server.should_exit = True
        thread.join()


@contextmanager
def idle(address: Address, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=WAIT_SECONDS)) for _ in range(count)]


def is_open(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def get(address: Address, path: str = "/") -> str:
    return httpx.get(f"http://127.0.0.1:{address[1]}{path}", trust_env=False, timeout=WAIT_SECONDS).text


def test_five_hundred_idle_strangers_keep_nobody_out_and_are_closed() -> None:
    with serving(App()) as address, idle(address, 500) as strangers:
        assert get(address) == "ok"
        wait_until(lambda: sum(map(is_open, strangers)) <= WAITING_MAX, "too many idle connections are kept")


def test_a_request_in_progress_makes_no_room() -> None:
    app, answers = App(), []
    with serving(app) as address:
        asking = threading.Thread(target=lambda: answers.append(get(address, "/slow")))
        asking.start()
        assert app.begun.wait(WAIT_SECONDS)
        with idle(address, WAITING_MAX + 100) as strangers:
            wait_until(lambda: not all(map(is_open, strangers)), "some make room")
        app.goes_on = True
        asking.join()
    assert answers == ["ok"]


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\n"])
def test_a_request_that_does_not_come_is_not_waited_for(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_connections, "REQUEST_SECONDS_MAX", 0.2)
    with serving(App()) as address, idle(address, 1) as (stranger,):
        stranger.sendall(words)
        wait_until(lambda: not is_open(stranger), "it is waited for", seconds=60)


def test_headers_that_come_byte_by_byte_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a connection that was used before, too."""
    monkeypatch.setattr(rest_connections, "REQUEST_SECONDS_MAX", 0.3)

    def ended() -> bool:
        with contextlib.suppress(OSError):
            slow.sendall(b"x")
        return not is_open(slow)

    with serving(App()) as address, idle(address, 1) as (slow,):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not slow.recv(1_000).endswith(b"ok"):
            pass
        wait_until(ended, "it is waited for", seconds=60)


def test_a_connection_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(App()) as address,
        httpx.Client(base_url=f"http://127.0.0.1:{address[1]}", trust_env=False, timeout=WAIT_SECONDS) as client,
    ):
        first = client.get("/").extensions["network_stream"].get_extra_info("client_addr")
        second = client.get("/").extensions["network_stream"].get_extra_info("client_addr")
        assert first == second


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    return tls_files_of(Authority(tmp_path), "rest")


def test_requests_by_tls_are_answered_while_strangers_begin_handshakes(tls: TlsFiles) -> None:
    with serving(App(), rest_context(tls)) as address, idle(address, 500) as strangers:
        for stranger in strangers[::2]:
            with contextlib.suppress(OSError):
                stranger.sendall(b"\x16\x03\x01")
        with httpx.Client(verify=client_context(tls.ca), trust_env=False, timeout=WAIT_SECONDS) as client:
            answers = [client.get(f"https://127.0.0.1:{address[1]}/") for _ in range(2)]
        assert [answer.text for answer in answers] == ["ok", "ok"]
        wait_until(lambda: sum(map(is_open, strangers)) <= WAITING_MAX, "too many idle connections are kept")


def test_a_handshake_that_does_not_end_is_not_waited_for(tls: TlsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_connections, "REQUEST_SECONDS_MAX", 0.2)
    with serving(App(), rest_context(tls)) as address, idle(address, 1) as (stranger,):
        stranger.sendall(b"\x16\x03\x01")
        wait_until(lambda: not is_open(stranger), "it is waited for", seconds=60)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(tls: TlsFiles) -> None:
    """A client of TLS 1.3 sends both at once."""
    with serving(App(), rest_context(tls)) as address, idle(address, 1) as (sock,):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_context(tls.ca).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        done = False
        while not done:
            try:
                client.do_handshake()
                done = True
                client.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                sock.sendall(outgoing.read())
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65_536))
        answer = b""
        while not answer.endswith(b"ok"):
            try:
                answer += client.read(1_000)
            except ssl.SSLWantReadError:
                data = sock.recv(65_536)
                assert data, answer
                incoming.write(data)
