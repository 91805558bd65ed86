"""What a coordinator answers while it does not lead.

    standby   GET /v1/health is answered; everything else with 307 and the same path at the leader, or 503
    holding   a leader in doubt: what changes nothing is answered as before, everything else with 503

The 307's body names the leader, too, for clients that do not follow redirects with their token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace import __version__
from headrace.client.cluster_models import Health
from headrace.client.errors import error_body
from headrace.coordinator.rest.access.tokens import Tokens, denial
from headrace.core.errors import ExternalError, HeadraceError
from headrace.leadership.leader import LEADER_HEADER, Leader

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_READS = {"GET", "HEAD"}


def standby_app(tokens: Callable[[], Tokens | None], leader: Callable[[], Leader | None], own_url: str) -> ASGIApp:
    """The application of a standby.

    tokens  the cluster's; None as long as this coordinator does not know them: then it names no leader
    leader  the leader as last found
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await _standby_answer(request, tokens(), leader(), own_url)(scope, receive, send)

    return app


def holding_app(app: ASGIApp, reason: str) -> ASGIApp:
    """The application of a leader in doubt. app: what answered before."""

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _READS:
            error = ExternalError(
                f"whether this coordinator leads is in doubt: {reason}", remedy="try again in a moment", retry=True
            )
            await _unavailable(error)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return held


def _standby_answer(request: Request, tokens: Tokens | None, leader: Leader | None, own_url: str) -> Response:
    path = request.url.path
    if tokens is None:
        return _unavailable(_waits("it has not read the cluster's tokens yet"))
    denied = denial(request.method, path, request.headers.get("authorization", ""), tokens)
    if denied is not None:
        return _error(denied.status, denied.error)
    if path == "/v1/health" and request.method in _READS:
        return JSONResponse(Health(status="standby", version=__version__).model_dump(mode="json"))
    # its own address is that of its last term
    if leader is None or leader.url == own_url:
        return _unavailable(_waits("no coordinator leads now"))
    query = f"?{request.url.query}" if request.url.query else ""
    location = f"{leader.url}{path}{query}"
    error = ExternalError(f"this coordinator is a standby; {leader.url} leads", remedy="ask that one", retry=True)
    return _error(307, error, {"Location": location, LEADER_HEADER: leader.url})


def _unavailable(error: ExternalError) -> JSONResponse:
    return _error(503, error, {"Retry-After": "1", LEADER_HEADER: ""})


def _waits(reason: str) -> ExternalError:
    return ExternalError(f"this coordinator is a standby: {reason}", remedy="try again in a moment", retry=True)


def _error(status: int, error: HeadraceError, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(error_body(error).model_dump(mode="json"), status, headers)
