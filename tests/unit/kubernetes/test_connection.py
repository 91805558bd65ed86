"""Requests against a scripted server: time limits, credentials that are replaced, pages, watches and logs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace.kubernetes import transport
from headrace.kubernetes.access import KubeconfigAccess
from headrace.kubernetes.connection import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    Connection,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    Operation,
    RejectedError,
    UnauthorizedError,
    refusal,
)
from headrace.kubernetes.documents import Collection, Json
from support.patience import WAIT_SECONDS

PODS = Collection("v1", "pods", "orders")
SHORT_S = 0.5
"""For requests that the server leaves without an answer."""

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers each request as the test has set, and keeps its head."""

    protocol_version = "HTTP/1.1"
    server: Server

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        self.body = json.loads(self.rfile.read(length)) if length else None
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.requests.append(f"{self.command} {parts.path}")
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815

    def reply(self, status: int, document: object) -> None:
        data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin_lines(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_part(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_arguments: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A server and what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []
        self.over = threading.Event()
        self.answer: Answer = lambda handler: handler.reply(200, {"metadata": {"name": "w"}})

    def hang(self, _handler: Handler) -> None:
        self.over.wait(WAIT_SECONDS)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield started
        started.over.set()
        started.shutdown()
        thread.join()


@contextmanager
def connected(server: Server, folder: Path) -> Iterator[Connection]:
    (folder / "token").write_text("first")
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "c", "user": {"tokenFile": str(folder / "token")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "orders"}}],
    }
    (folder / "config").write_text(json.dumps(config))
    connection = Connection(KubeconfigAccess(str(folder / "config")))
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def connection(server: Server, tmp_path: Path) -> Iterator[Connection]:
    with connected(server, tmp_path) as opened:
        yield opened


def test_a_request_is_sent_once_and_ends_in_time(server: Server, connection: Connection) -> None:
    server.answer = server.hang
    begun_s = time.monotonic()
    with pytest.raises(UnreachableError, match="time limit has passed"):
        connection.get(PODS, "w", timeout_s=SHORT_S)
    assert time.monotonic() - begun_s >= SHORT_S
    assert server.requests == ["GET /api/v1/namespaces/orders/pods/w"]


def test_an_answer_that_stops_in_its_midst_ends_in_time(server: Server, connection: Connection) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        server.hang(handler)

    server.answer = half
    with pytest.raises(UnreachableError, match="time limit has passed"):
        connection.get(PODS, "w", timeout_s=SHORT_S)


def test_requests_beyond_the_bound_wait_within_their_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECTIONS_MAX", 1)
    asked = threading.Event()

    def hang(handler: Handler) -> None:
        asked.set()
        server.hang(handler)
        handler.reply(200, {})

    server.answer = hang
    with connected(server, tmp_path) as connection:
        thread = threading.Thread(target=connection.get, args=(PODS, "w"), kwargs={"timeout_s": WAIT_SECONDS})
        thread.start()
        assert asked.wait(WAIT_SECONDS)
        with pytest.raises(UnreachableError, match="all connections to it are in use"):
            connection.get(PODS, "v", timeout_s=SHORT_S)
        server.over.set()
        thread.join()
        assert connection.get(PODS, "v") == {}


def test_a_server_that_is_gone_is_named(server: Server, connection: Connection) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(UnreachableError, match=r"does not answer: .*refused") as refused:
        connection.get(PODS, "w")
    assert connection.host in refused.value.message


def test_refused_credentials_are_read_again(
    server: Server, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_second(handler: Handler) -> None:
        accepted = handler.headers["Authorization"] == "Bearer second"
        handler.reply(200 if accepted else 401, {"metadata": {"name": "w"}})

    server.answer = only_second
    (tmp_path / "token").write_text("second")
    with pytest.raises(UnauthorizedError):
        connection.get(PODS, "w")
    assert len(server.requests) == 1, "they were read just now"
    monkeypatch.setattr(transport, "REREAD_SECONDS_MIN", 0.0)
    assert connection.get(PODS, "w") == {"metadata": {"name": "w"}}
    assert len(server.requests) == 3
    (tmp_path / "config").write_text("being replaced")
    server.answer = lambda handler: handler.reply(401, {})
    with pytest.raises(UnauthorizedError):
        connection.get(PODS, "w")


def test_a_list_has_all_pages(server: Server, connection: Connection) -> None:
    def pages(handler: Handler) -> None:
        assert handler.query["labelSelector"] == "app=orders"
        more = {"": "1", "1": "2"}.get(handler.query.get("continue", ""), "")
        metadata = {"resourceVersion": "7", "continue": more}
        handler.reply(200, {"metadata": metadata, "items": [{"metadata": {"name": f"before {more}"}}]})

    server.answer = pages
    listing = connection.list(PODS, labels="app=orders")
    assert listing.resource_version == "7"
    assert [each["metadata"] for each in listing.items] == [{"name": f"before {more}"} for more in ("1", "2", "")]


def test_writes_name_their_conditions(server: Server, connection: Connection) -> None:
    bodies: list[tuple[str, object, object]] = []

    def keep(handler: Handler) -> None:
        bodies.append((handler.headers["Content-Type"], handler.query, handler.body))
        handler.reply(200, {})

    server.answer = keep
    connection.create(PODS, {"kind": "Pod"}, dry_run=True)
    connection.patch(PODS, "w", {"metadata": {"labels": {"a": None}}}, subresource="status")
    connection.apply(PODS, "w", {"kind": "Pod"}, manager="headrace")
    connection.delete(PODS, "w", uid="u", resource_version="7", propagation="Foreground", grace_s=0)
    connection.delete(PODS, "w")
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    precise = options | {
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }
    assert bodies == [
        ("application/json", {"dryRun": "All"}, {"kind": "Pod"}),
        ("application/merge-patch+json", {}, {"metadata": {"labels": {"a": None}}}),
        ("application/apply-patch+yaml", {"fieldManager": "headrace", "force": "true"}, {"kind": "Pod"}),
        ("application/json", {}, precise),
        ("application/json", {}, options),
    ]
    assert server.requests[1] == "PATCH /api/v1/namespaces/orders/pods/w/status"


def _event(kind: str, document: object) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


def test_a_watch_returns_events_as_they_come_and_ends_when_it_is_closed(server: Server, connection: Connection) -> None:
    def send(handler: Handler) -> None:
        assert (handler.query["resourceVersion"], handler.query["timeoutSeconds"]) == ("7", "240")
        handler.begin_lines()
        events = _event("ADDED", {"metadata": {"name": "a"}}) + _event("DELETED", {"metadata": {"name": "b"}})
        handler.send_part(events[:20])
        handler.send_part(events[20:])
        server.hang(handler)

    server.answer = send
    with connection.watch(PODS, resource_version="7") as watch:
        assert [(event.kind, event.document) for event in (next(watch), next(watch))] == [
            ("ADDED", {"metadata": {"name": "a"}}),
            ("DELETED", {"metadata": {"name": "b"}}),
        ]
        ended = threading.Event()

        def read_on() -> None:
            assert list(watch) == []
            ended.set()

        reader = threading.Thread(target=read_on)
        reader.start()
        watch.close()
        assert ended.wait(WAIT_SECONDS)
        reader.join()


def test_a_watch_that_is_too_late_has_expired(server: Server, connection: Connection) -> None:
    def expire(handler: Handler) -> None:
        handler.begin_lines()
        handler.send_part(_event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}))
        handler.send_part(b"")

    server.answer = expire
    with pytest.raises(ExpiredError, match="refused to watch pods in namespace orders: 410 too old"):
        next(connection.watch(PODS, resource_version="1"))
    server.answer = lambda handler: handler.reply(410, {"reason": "Expired", "message": "too old"})
    with pytest.raises(ExpiredError):
        connection.watch(PODS, resource_version="1")


def test_a_stream_that_breaks_is_no_end(server: Server, connection: Connection) -> None:
    def break_off(handler: Handler) -> None:
        handler.begin_lines()
        handler.send_part(_event("ADDED", {}))
        handler.close_connection = True

    server.answer = break_off
    watch = connection.watch(PODS, resource_version="1")
    assert next(watch).kind == "ADDED"
    with pytest.raises(UnreachableError, match="broke"):
        next(watch)


def test_a_log_has_its_lines(server: Server, connection: Connection) -> None:
    def log(handler: Handler) -> None:
        assert handler.query == {"container": "main", "follow": "true", "tailLines": "9"}
        handler.begin_lines()
        for part in (b"one\ntw", b"o\n\nth", b"ree"):
            handler.send_part(part)
        handler.send_part(b"")

    server.answer = log
    lines = connection.logs(PODS, "w", container="main", follow=True, tail_lines=9)
    assert list(lines) == [b"one", b"two", b"", b"three"]
    server.answer = lambda handler: handler.reply(404, {"reason": "NotFound", "message": "no pod"})
    with pytest.raises(NotFoundError, match="refused to get log of pods/w in namespace orders: 404 no pod"):
        connection.logs(PODS, "w")


def test_streams_take_no_connection_from_requests(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(transport, "STREAMS_MAX", 1)

    def send(handler: Handler) -> None:
        if "watch" not in handler.query:
            handler.reply(200, {})
            return
        handler.begin_lines()
        server.hang(handler)

    server.answer = send
    with connected(server, tmp_path) as connection:
        with connection.watch(PODS, resource_version="1"):
            assert connection.get(PODS, "w") == {}
            with pytest.raises(UnreachableError, match="in use"):
                connection.watch(PODS, resource_version="1", timeout_s=SHORT_S)
        connection.watch(PODS, resource_version="1").close()


LEASES = Collection("coordination.k8s.io/v1", "leases", "orders")
UPDATE = Operation("update", LEASES, "leader")


def _refused(status: int, answer: Json = None, operation: Operation = UPDATE) -> HeadraceError:
    return refusal(operation, "the Kubernetes API at https://k", status, answer)


@pytest.mark.parametrize(
    ("status", "reason", "kind", "retry"),
    [
        (400, "BadRequest", RejectedError, False),
        (401, "Unauthorized", UnauthorizedError, False),
        (403, "Forbidden", ForbiddenError, False),
        (404, "NotFound", NotFoundError, False),
        (409, "Conflict", ConflictError, True),
        (409, "AlreadyExists", AlreadyExistsError, False),
        (410, "Expired", ExpiredError, True),
        (422, "Invalid", RejectedError, False),
        (429, "TooManyRequests", ApiError, True),
        (500, "InternalError", ApiError, True),
        (503, "ServiceUnavailable", ApiError, True),
        (302, "Found", ApiError, False),
    ],
)
def test_a_status_is_an_error_that_callers_match(
    status: int, reason: str, kind: type[HeadraceError], retry: bool
) -> None:
    error = _refused(status, {"kind": "Status", "reason": reason, "message": f"said {reason}"})
    assert type(error) is kind
    assert error.retry == retry
    assert isinstance(error, UserError if kind is RejectedError else ExternalError)
    if status != 401:
        expected = "the Kubernetes API at https://k refused to update leases/leader in namespace orders"
        assert error.message == f"{expected}: {status} said {reason}"


def test_a_missing_right_is_named() -> None:
    error = _refused(403, {"message": 'leases "leader" is forbidden: User "u" cannot update resource "leases"'})
    assert "User" in error.message
    assert error.remedy == (
        "bind its service account or user to a Role in namespace orders with the rule "
        '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"]}'
    )
    log = _refused(403, None, Operation("get", Collection("v1", "pods"), "w", "log"))
    assert log.remedy is not None
    assert log.remedy.endswith('a ClusterRole with the rule {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}')


def test_a_quota_is_no_missing_right() -> None:
    assert _refused(403, {"message": "exceeded quota: small"}).remedy is None


def test_an_api_that_is_not_served_is_no_missing_object() -> None:
    error = _refused(404, "404 page not found\n")
    assert type(error) is ApiError
    assert "does not serve leases of coordination.k8s.io/v1" in error.message
