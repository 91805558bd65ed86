"""A standby's connection to the leader: it forwards requests, and shows the leader that there is a standby.

Clients may reach no other coordinator than this one: through a Service, an Ingress, a port that is forwarded. A body is
passed on piece by piece in both directions, so a request takes `PIECE_BYTES` of memory and not its size. A forwarded
request has `FORWARDED_HEADER`: a coordinator that does not lead either does not forward it again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from starlette.requests import ClientDisconnect

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.leadership.elector import FORWARDED_HEADER, STANDBY_HEADER, Leader
from headrace.tls.contexts import client_context
from headrace.tls.files import CA_VARIABLE, FileVersion, NamedServer, TlsFiles, named_authority

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Send

FORWARDS_MAX = 64
"""Most requests that a standby forwards at the same time; others wait in their clients."""
CONNECT_SECONDS = 5.0
ANSWER_SECONDS_MAX = 150.0
"""How long the leader may be silent: longer than any client waits."""
LOOK_SECONDS_MAX = 3.0
PIECE_BYTES = 64 * 1024
_PASSED_ON = ("authorization", "accept", "content-type", "content-length", "user-agent")
"""Headers of a request that the leader needs. Those by which a browser names its page were judged here: they name this
coordinator's address, not the leader's."""
_OF_ONE_CONNECTION = {
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade", b"date", b"server",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NotForwarded:
    """Why a request has no answer of the leader. is_unheard: the leader cannot have received it."""

    error: HeadraceError
    is_unheard: bool


class LeaderLine:
    """The line of one standby. Belongs to the event loop. tls: its files; name: by which the leader tells standbys
    apart."""

    def __init__(self, tls: TlsFiles | None, name: str, environment: Mapping[str, str] | None = None) -> None:
        """environment: may name what certificates of coordinators hold in place of their addresses."""
        self._tls = tls
        self._environment = environment or {}
        self._extensions: dict[str, str] = {}
        self._name = name
        self._version = None if tls is None else FileVersion(tls)
        self._closing: asyncio.Task[None] | None = None
        self._http: httpx.AsyncClient | None = None
        self._url = ""
        self._under_way = 0

    async def forward(self, request: Request, send: Send, leader: Leader) -> NotForwarded | None:
        """Passes a request on, and the answer back. Returns None once an answer has begun."""
        if self._under_way >= FORWARDS_MAX:
            busy = f"this coordinator is a standby, and {FORWARDS_MAX} requests are on their way to the leader"
            return NotForwarded(ExternalError(busy, remedy="try again in a moment", retry=True), is_unheard=True)
        self._under_way += 1
        try:
            return await self._forwarded(request, send, leader)
        finally:
            self._under_way -= 1

    async def show(self, leader: Leader, token: str) -> None:
        """Shows the leader that there is a standby. Raises ExternalError if it does not answer."""
        headers = {"authorization": f"Bearer {token}", STANDBY_HEADER: self._name}
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                http = self._client(leader)
                await http.get("/v1/health", headers=headers, extensions=self._extensions)
        except (httpx.HTTPError, TimeoutError) as error:
            raise _unreachable(leader, error) from error

    async def close(self) -> None:
        """Closes its connections."""
        if self._http is not None:
            await self._http.aclose()
        self._http = None

    async def _forwarded(self, request: Request, send: Send, leader: Leader) -> NotForwarded | None:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        has_body = headers.get("content-length", "0") != "0"
        query: bytes = request.scope["query_string"]
        # whatever a path holds, the address is the leader's: the request has the cluster's token
        path: bytes = request.scope["raw_path"] + (b"?" + query if query else b"")
        try:
            http = self._client(leader)
            passed = http.build_request(
                request.method,
                httpx.URL(leader.url).copy_with(raw_path=path),
                headers=headers | {FORWARDED_HEADER: self._name},
                content=request.stream() if has_body else None,
                extensions=self._extensions,
            )
            response = await http.send(passed, stream=True)
        except UserError as error:
            return NotForwarded(error, is_unheard=True)
        except httpx.InvalidURL as error:
            return NotForwarded(UserError(f"this is no path: {error}"), is_unheard=True)
        except ClientDisconnect:
            return None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return NotForwarded(_unreachable(leader, error), is_unheard=True)
        except httpx.HTTPError as error:
            # it may have been handled: the client has to know that before it sends the request again
            return NotForwarded(_unreachable(leader, error), is_unheard=request.method in {"GET", "HEAD"})
        try:
            await _answered(response, send)
        except httpx.HTTPError:
            # an answer that has begun cannot be taken back: one without its end fails at the client
            return None
        finally:
            await response.aclose()
        return None

    def _client(self, leader: Leader) -> httpx.AsyncClient:
        """The connections to this leader. Raises UserError for TLS files that do not work."""
        is_replaced = self._version is not None and self._version.has_changed()
        if self._http is None or is_replaced or self._url != leader.url:
            if self._http is not None:
                self._closing = asyncio.create_task(self._http.aclose())
            self._url, authority = leader.url, self._authority()
            self._extensions = {"sni_hostname": authority.name} if isinstance(authority, NamedServer) else {}
            is_encrypted = httpx.URL(leader.url).scheme == "https"
            self._http = httpx.AsyncClient(
                base_url=leader.url,
                headers={"accept-encoding": "identity"},
                trust_env=False,
                timeout=httpx.Timeout(ANSWER_SECONDS_MAX, connect=CONNECT_SECONDS),
                # none is kept: on one that the leader closes at that moment nobody knows what it has received
                limits=httpx.Limits(max_connections=FORWARDS_MAX + 1, max_keepalive_connections=0),
                verify=client_context(authority) if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            )
        return self._http

    def _authority(self) -> Path | NamedServer | None:
        return None if self._tls is None else named_authority({**self._environment, CA_VARIABLE: str(self._tls.ca)})


async def _answered(response: httpx.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    kept = [(name, value) for name, value in headers if name not in _OF_ONE_CONNECTION]
    await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
    async for piece in _pieces(response):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it was encoded."""
    async for piece in response.aiter_raw(PIECE_BYTES):
        yield piece


def _unreachable(leader: Leader, error: Exception) -> ExternalError:
    reason = str(error) or type(error).__name__
    return ExternalError(
        f"this coordinator is a standby, and {leader.url}, which leads, does not answer it: {reason}",
        remedy="try again in a moment: another coordinator leads if it is gone",
        retry=True,
    )
