"""One connection for many requests, made again where the peer has ended it, and through a proxy where one is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.client.connection import Connection, Response
from headrace.core.errors import UserError


@dataclass
class Peer:
    """A server that answers with what it was asked. closes: after each answer, without saying so."""

    port: int = 0
    closes: bool = False
    ports: list[int] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def peer() -> Iterator[Peer]:
    found = Peer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            found.ports.append(self.client_address[1])
            content = self.rfile.read(int(self.headers["Content-Length"]))
            answer = f"{self.path} {self.headers['Authorization']} ".encode() + content
            self.send_response(201)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            self.close_connection = found.closes

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def test_requests_share_a_connection(peer: Peer) -> None:
    connection = Connection(f"{peer.url}/base", "secret", 60)
    assert connection.request("POST", "/a", b"one") == Response(201, b"/base/a Bearer secret one")
    assert connection.request("POST", "/b", None) == Response(201, b"/base/b Bearer secret ")
    connection.close()
    assert len(set(peer.ports)) == 1


def test_a_connection_that_the_peer_has_closed_is_made_again(peer: Peer) -> None:
    peer.closes = True
    connection = Connection(peer.url, None, 60)
    for _ in range(3):
        assert connection.request("POST", "/a", b"one").status == 201
    connection.close()
    assert len(set(peer.ports)) == 3


def test_a_proxy_is_asked_for_the_whole_address(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", peer.url)
    connection = Connection("http://coordinator.example:8080", None, 60)
    answer = connection.request("POST", "/v1/jobs", b"one")
    connection.close()
    assert answer.content == b"http://coordinator.example:8080/v1/jobs None one"


def test_loopback_needs_no_proxy(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    connection = Connection(peer.url, None, 60)
    assert connection.request("POST", "/a", None).status == 201
    connection.close()


@pytest.mark.parametrize("url", ["coordinator:80", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="is no address"):
        Connection(url, None, 60)
