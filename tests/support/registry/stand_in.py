"""A stand-in for Confluent's schema registry: an HTTP server on loopback with its answers and codes, and with troubles.

It stands in for what no registry that runs here has: GUIDs, 429 and 5xx, silence, half answers, authentication, TLS,
redirects, a follower that does not know a schema yet. It checks little of a schema: Apicurio does (`apicurio`).
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from support.certificates import Authority, Issued
from support.registry.stand_in_subjects import LEVELS, Document, RefusedError, Registered, Subjects, Version

JSON_TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    method: str
    path: str
    authorization: str | None
    headers: dict[str, str]


Trouble = Callable[["Handler"], None]
"""Answers a request otherwise than a registry does."""


def status(code: int, text: str = "") -> Trouble:
    """An answer of that status. text: its message; without one it has no JSON."""
    body = json.dumps({"error_code": code, "message": text}).encode() if text else b"<html>no JSON</html>"
    return lambda handler: handler.send(code, body)


def redirect(url: str, code: int = 307) -> Trouble:
    """An answer that names another address."""
    return lambda handler: handler.send(code, b"", {"Location": url})


def half(handler: Handler) -> None:
    """The first half of an answer; then the connection ends."""
    handler.send(200, b'{"schema": ', {"Content-Length": "100"})
    handler.close_connection = True


def silence(handler: Handler) -> None:
    """No answer, until the stand-in ends."""
    handler.stand_in.ended.wait()
    handler.close_connection = True


def text(body: bytes, headers: dict[str, str] | None = None) -> Trouble:
    """An answer of status 200 with this body."""
    return lambda handler: handler.send(200, body, headers)


def endless(handler: Handler) -> None:
    """An answer that goes on until the client closes."""
    handler.send(200, b"", {"Content-Length": str(1 << 40)})
    try:
        while not handler.stand_in.ended.is_set():
            handler.wfile.write(b" " * (1 << 16))
    except OSError:
        handler.close_connection = True


@dataclass(slots=True)
class StandIn:
    """A running one.

    troubles   of the next requests, one each; then it answers again
    trouble    of every request, if there are no others
    requests   that arrived, in order
    """

    subjects: Subjects = field(default_factory=Subjects)
    troubles: list[Trouble] = field(default_factory=list)
    trouble: Trouble | None = None
    requests: list[Request] = field(default_factory=list)
    user: tuple[str, str] | None = None
    token: str | None = None
    scheme: str = "http"
    port: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """Of all requests."""
        return [each.path for each in self.requests]

    def lets_in(self, authorization: str | None) -> bool:
        """Whether a request may be answered."""
        if self.user is not None:
            expected = base64.b64encode(":".join(self.user).encode()).decode()
            return authorization == f"Basic {expected}"
        return self.token is None or authorization == f"Bearer {self.token}"

    def answer(self, method: str, path: str, body: Document) -> object:
        """The document that answers a request. Raises RefusedError."""
        parts = urlsplit(path)
        asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        match (method, *[unquote(part) for part in parts.path.strip("/").split("/")]):
            case ("GET", "schemas", "types"):
                return ["JSON", "PROTOBUF", "AVRO"]
            case ("GET", "schemas", "ids", number):
                return self.subjects.schema(number, asked.get("subject")).document()
            case ("GET", "schemas", "guids", guid):
                found = self.subjects.schema_by_guid(guid)
                return {**found.document(), "id": found.id}
            case ("GET", "subjects"):
                return sorted(self.subjects.versions)
            case ("POST", "subjects", name):
                return _version(name, self.subjects.lookup(name, body))
            case ("POST", "subjects", name, "versions"):
                return _version(name, self.subjects.register(name, body))
            case ("GET", "subjects", name, "versions", number):
                deleted = asked.get("deleted") == "true"
                return _version(name, self.subjects.version(name, number, deleted=deleted))
            case ("DELETE", "subjects", name, "versions", number):
                return self.subjects.delete(name, number, permanent=asked.get("permanent") == "true")
            case ("PUT", "config", *name):
                return self._set_level(name, str(body.get("compatibility")))
            case ("POST", "compatibility", "subjects", name, "versions", _):
                return {"is_compatible": self.subjects.compatible(name, body)}
        raise RefusedError(404, "HTTP 404 Not Found")

    def _set_level(self, name: list[str], level: str) -> Document:
        if level not in LEVELS:
            raise RefusedError(42203, f"Invalid compatibility level: {level}")
        if name:
            self.subjects.levels[name[0]] = level
        else:
            self.subjects.level = level
        return {"compatibility": level}


def _version(name: str, version: Version) -> Document:
    schema: Registered = version.schema
    return {"subject": name, "version": version.number, "id": schema.id, **schema.document()}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    stand_in: StandIn

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Sends an answer."""
        self.send_response(code)
        for name, value in ({"Content-Type": JSON_TYPE, "Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Tests have no log of requests."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        stand_in, authorization = self.stand_in, self.headers.get("Authorization")
        with stand_in.lock:
            stand_in.requests.append(Request(self.command, self.path, authorization, dict(self.headers)))
            trouble = stand_in.troubles.pop(0) if stand_in.troubles else stand_in.trouble
        if trouble is not None:
            trouble(self)
        elif not stand_in.lets_in(authorization):
            self.send(401, json.dumps({"error_code": 401, "message": "Unauthorized"}).encode())
        else:
            self._answer(json.loads(body) if body else {})

    def _answer(self, body: Document) -> None:
        try:
            with self.stand_in.lock:
                answer = self.stand_in.answer(self.command, self.path, body)
        except RefusedError as error:
            self.send(error.status, json.dumps({"error_code": error.code, "message": error.message}).encode())
        else:
            self.send(200, json.dumps(answer).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # a client that gives up is no fault of the server
    handle_error = staticmethod(lambda *_: None)  # type: ignore[assignment]


@contextmanager
def stand_in(identity: Issued | None = None, clients: Authority | None = None) -> Iterator[StandIn]:
    """A running one; by https with a certificate, for clients with a certificate of `clients` only."""
    running = StandIn(scheme="http" if identity is None else "https")
    server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"stand_in": running}))
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    running.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield running
    finally:
        running.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
