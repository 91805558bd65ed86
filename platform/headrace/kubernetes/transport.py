"""HTTP requests to one API server: bounded in time and in connections, never repeated, except with new credentials."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from headrace.core.errors import UnreachableError, UserError
from headrace.kubernetes.access import Access, Credentials
from headrace.kubernetes.documents import Json

if TYPE_CHECKING:
    from types import TracebackType

    from urllib3 import BaseHTTPResponse, PoolManager


LINE_BYTES_MAX = 8 << 20
"""Longer lines are returned in parts. Objects are shorter: etcd stores at most 1.5 MiB of one."""
_CLOSE_SECONDS = 5.0


class LineStream(Iterator[bytes]):
    """The lines, without their ends. One thread reads; any thread may close it, which ends the iteration.

    Raises UnreachableError if the connection breaks, or if no data come for the time that it was opened with.
    """

    def __init__(self, response: BaseHTTPResponse, host: str) -> None:
        self._response = response
        self._host = host
        self._parts = response.stream(1 << 16, decode_content=False)
        self._buffer = bytearray()
        self._reading = threading.Lock()
        self._closed = threading.Event()

    def __enter__(self) -> LineStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> bytes:
        from urllib3.exceptions import HTTPError

        with self._reading:
            while (end := self._buffer.find(b"\n")) < 0 and len(self._buffer) < LINE_BYTES_MAX:
                if self._closed.is_set():
                    raise StopIteration
                try:
                    self._buffer += next(self._parts)
                except StopIteration:
                    return self._rest()
                except (HTTPError, OSError, ValueError, AttributeError) as error:
                    # a socket that `close` has shut down fails in all of these ways
                    if self._closed.is_set():
                        raise StopIteration from None
                    raise UnreachableError(f"the connection to the Kubernetes API at {self._host} broke") from error
            end = end if end >= 0 else LINE_BYTES_MAX
            line = bytes(self._buffer[:end])
            del self._buffer[: end + (self._buffer[end : end + 1] == b"\n")]
            return line

    def close(self) -> None:
        """Ends the iteration, and releases the connection. Idempotent."""
        self._closed.set()
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if isinstance(sock, socket.socket):
            # a thread that reads holds locks of the response, on which its own `close` would wait
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if self._reading.acquire(timeout=_CLOSE_SECONDS):
            try:
                release(self._response)
            finally:
                self._reading.release()

    def _rest(self) -> bytes:
        """The last line, if it has no end."""
        if not self._buffer:
            raise StopIteration
        line = bytes(self._buffer)
        self._buffer.clear()
        return line


def limit_reads(response: BaseHTTPResponse, seconds: float) -> None:
    """Limits each following read from the connection."""
    connection = getattr(response, "connection", None)
    sock = getattr(connection, "sock", None)
    if isinstance(sock, socket.socket):
        sock.settimeout(seconds)


def release(response: BaseHTTPResponse) -> None:
    """Closes the connection of an answer that was not read to its end; the other ones are back in the pool already."""
    with contextlib.suppress(Exception):
        response.close()
        response.release_conn()


CONNECTIONS_MAX = 8
"""Requests that are under way at the same time; another one waits for a free connection within its time limit."""
STREAMS_MAX = 32
"""Watches and logs that are followed at the same time; beyond that `UnreachableError`."""
REREAD_SECONDS_MIN = 5.0
"""Credentials that the server refuses are read again at most this often."""
_PART_BYTES = 1 << 16
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request. path: below the server's address."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    content_type: str = _JSON

    @property
    def url(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Answer:
    """content: the document; text if the answer is none."""

    status: int
    content: Json


class _Opened:
    """Connections with credentials that were read at one time."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.requests = credentials.pool(CONNECTIONS_MAX)
        self.streams = credentials.pool(STREAMS_MAX)
        self.read_s = time.monotonic()

    def clear(self) -> None:
        """Closes connections that are not in use; the others when they are released."""
        self.requests.clear()
        self.streams.clear()


class Transport:
    """Thread-safe. Its construction raises what `Access.read` raises."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._renewing = threading.Lock()
        """Held while credentials are read or renewed, which may call a plugin."""
        self._opened = _Opened(access.read())

    @property
    def host(self) -> str:
        """The address of the API server."""
        return self._opened.credentials.host

    @property
    def namespace(self) -> str:
        """The namespace of the pod, or of the kubeconfig's context."""
        return self._opened.credentials.namespace

    def send(self, request: Request, timeout_s: float) -> Answer:
        """Sends it and returns the answer, whatever its status. Raises UnreachableError if the answer is not complete
        within the time limit; the server may then have done what was asked."""
        deadline_s = time.monotonic() + timeout_s
        with self._answering():
            response = self._response(request, deadline_s, is_stream=False)
            return _answer(response, deadline_s)

    def stream(self, request: Request, timeout_s: float, silence_s: float) -> LineStream | Answer:
        """Sends it and returns the lines of the answer as they come; the answer itself if it is a failure.

        timeout_s: for the head of the answer; silence_s: longest time without data.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._answering():
            response = self._response(request, deadline_s, is_stream=True)
            if response.status >= 300:
                return _answer(response, deadline_s)
            limit_reads(response, silence_s)
            return LineStream(response, self.host)

    def close(self) -> None:
        """Closes connections. Idempotent."""
        self._opened.clear()

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Raises UnreachableError for a server that does not answer inside."""
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (HTTPError, OSError) as error:
            raise unreachable(self.host, error) from error

    def _response(self, request: Request, deadline_s: float, *, is_stream: bool) -> BaseHTTPResponse:
        """The response, of which the head is read. The caller releases it."""
        opened = self._opened
        response = self._sent(opened, request, deadline_s, is_stream=is_stream)
        if response.status == 401 and (renewed := self._read_again(opened, deadline_s)) is not None:
            # tokens and certificates in files are replaced while this process runs
            release(response)
            response = self._sent(renewed, request, deadline_s, is_stream=is_stream)
        return response

    def _sent(self, opened: _Opened, request: Request, deadline_s: float, *, is_stream: bool) -> BaseHTTPResponse:
        from urllib3 import Timeout

        headers = {"Accept": _JSON if not is_stream else "*/*", "User-Agent": "headrace"}
        with self._alone(deadline_s):
            token = opened.credentials.authorization()
        if token is not None:
            headers["Authorization"] = token
        body = None
        if request.body is not None:
            body = json.dumps(request.body).encode()
            headers["Content-Type"] = request.content_type
        pool: PoolManager = opened.streams if is_stream else opened.requests
        left_s = _left(deadline_s)
        return pool.urlopen(
            request.method,
            opened.credentials.host + request.url,
            redirect=False,
            body=body,
            headers=headers,
            # its default repeats a request three times, each with the whole time limit
            retries=False,
            preload_content=False,
            timeout=Timeout(total=left_s),
            pool_timeout=left_s,
        )

    def _read_again(self, refused: _Opened, deadline_s: float) -> _Opened | None:
        """Credentials other than the refused ones; None: these were read just now."""
        with self._alone(deadline_s):
            if self._opened is refused:
                if time.monotonic() - refused.read_s < REREAD_SECONDS_MIN:
                    return None
                try:
                    self._opened = _Opened(self._access.read())
                except UserError:
                    # files that are being replaced: the refusal stands
                    return None
                refused.clear()
            return self._opened

    @contextlib.contextmanager
    def _alone(self, deadline_s: float) -> Iterator[None]:
        if not self._renewing.acquire(timeout=_left(deadline_s)):
            raise TimeoutError("the credential plugin does not end")
        try:
            yield
        finally:
            self._renewing.release()


def unreachable(host: str, error: BaseException) -> UnreachableError:
    """The error for a server that does not answer."""
    from urllib3.exceptions import EmptyPoolError, NewConnectionError, SSLError
    from urllib3.exceptions import TimeoutError as PoolTimeoutError

    reason, remedy = str(error), "check the address in the kubeconfig, and the server with `kubectl version`"
    match error:
        case EmptyPoolError():
            reason = "all connections to it are in use"
        case NewConnectionError():
            # begins with the representation of a connection
            reason = reason.partition("): ")[2] or reason
        case PoolTimeoutError() | TimeoutError():
            reason = "the time limit has passed"
        case SSLError():
            remedy = "check the certificate authority and the client certificate in the kubeconfig"
        case _:
            pass
    return UnreachableError(f"the Kubernetes API at {host} does not answer: {reason}", remedy=remedy)


def _answer(response: BaseHTTPResponse, deadline_s: float) -> Answer:
    data = bytearray()
    try:
        limit_reads(response, _left(deadline_s))
        for part in response.stream(_PART_BYTES, decode_content=False):
            data += part
            # the last part has put the connection back
            limit_reads(response, _left(deadline_s))
    finally:
        release(response)
    return Answer(response.status, _content(bytes(data)))


def _content(data: bytes) -> Json:
    if not data:
        return None
    try:
        content: Json = json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
    return content


def _left(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time limit has passed")
    return left_s
