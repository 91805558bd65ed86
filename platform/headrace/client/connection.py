"""A kept HTTP connection to a coordinator.

On the standard library's client: a command ends after one or two requests, and `import httpx` alone takes longer than
those (it loads rich, pygments and click where they are installed).
"""

from __future__ import annotations

import ipaddress
import select
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from headrace.core.errors import UserError

CONNECT_SECONDS = 5.0
KEPT_SECONDS = 5.0
"""How long an idle connection is used again: a coordinator keeps it far longer (`KEEP_ALIVE_SECONDS`), so that it does
not close one while a request is on its way."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer with its whole body."""

    status: int
    content: bytes


class Connection:
    """Sends requests one after the other; connects when it has to. Not for several threads."""

    def __init__(self, url: str, token: str | None, answer_s: float) -> None:
        """Raises UserError where `url` is no address."""
        self._address = _address(url)
        self._headers = {"User-Agent": "headrace"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        self._answer_s = answer_s
        self._open: HTTPConnection | None = None
        self._path_prefix = self._address.path
        self._used_s = 0.0

    def request(self, method: str, path: str, body: bytes | None) -> Response:
        """Sends a request and reads the answer. Raises OSError, HTTPException where there is none."""
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        connection = self._connection()
        try:
            connection.request(method, self._path_prefix + path, body, headers)
            answer = connection.getresponse()
            response = Response(answer.status, answer.read())
        except BaseException:
            self.close()
            raise
        self._used_s = time.monotonic()
        return response

    def close(self) -> None:
        """Closes the connection; a later request makes another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> HTTPConnection:
        if self._open is not None and not self._is_usable(self._open):
            self.close()
        if self._open is None:
            connection = self._route()
            connection.connect()
            connection.sock.settimeout(self._answer_s)
            self._open = connection
        return self._open

    def _is_usable(self, connection: HTTPConnection) -> bool:
        """Whether the peer has left an idle connection open, as far as one can tell."""
        if connection.sock is None or time.monotonic() - self._used_s > KEPT_SECONDS:
            return False
        # between answers there is nothing to read but the peer's end
        return not select.select([connection.sock], [], [], 0)[0]

    def _route(self) -> HTTPConnection:
        """To the coordinator, or to the proxy that the environment names for it; not connected yet."""
        address = self._address
        host = address.hostname or ""
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        proxy = None if is_loopback(host) else _proxy_of(address)
        if proxy is None:
            return kind(host, address.port, timeout=CONNECT_SECONDS)
        connection = kind(proxy.hostname or "", proxy.port, timeout=CONNECT_SECONDS)
        if address.scheme == "https":
            connection.set_tunnel(host, address.port)
        else:
            # a proxy of plain HTTP is asked for the whole address
            self._path_prefix = f"{address.scheme}://{address.netloc}{address.path}"
        return connection


def _address(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        _ = address.port
    except ValueError as error:
        raise UserError(f"{url!r} is no address: {error}", remedy="write http://HOST:PORT") from error
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise UserError(f"{url!r} is no address of a coordinator", remedy="write http://HOST:PORT")
    return address


def is_loopback(host: str) -> bool:
    """Whether a host name means this host, which no proxy can reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _proxy_of(address: SplitResult) -> SplitResult | None:
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(address.hostname or ""):
        return None
    named = getproxies().get(address.scheme)
    return None if named is None else urlsplit(named if "://" in named else f"http://{named}")
