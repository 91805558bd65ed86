"""The answers of a coordinator that does not lead, and a leader's notes on its standbys.

    standby   GET /v1/health is answered; everything else is forwarded to the leader, or 503
    holding   a leader in doubt: a request that changes nothing is answered as before, everything else with 503

A 503 with LEADER_HEADER says that no coordinator has handled the request: a client may send it again. 502 says that the
leader may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace import __version__
from headrace.client.cluster_models import Health
from headrace.client.errors import error_body
from headrace.coordinator.leading.leader_line import LeaderLine
from headrace.coordinator.rest.access.tokens import Tokens, denial
from headrace.coordinator.rest.app import refused
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.leadership.elector import FORWARDED_HEADER, LEADER_HEADER, STANDBY_HEADER, Leader

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_READS = {"GET", "HEAD"}
_HEALTH = "/v1/health"


def standby_app(
    tokens: Callable[[], Tokens | None], leader: Callable[[], Leader | None], own_url: str, line: LeaderLine
) -> ASGIApp:
    """The application of a standby.

    tokens  the cluster's; None as long as this coordinator does not know them: then it forwards nothing
    leader  the leader as last found
    line    to the leader
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        found = leader()
        answer = _own_answer(request, tokens(), found, own_url)
        if answer is None:
            assert found is not None, "a request without a leader has an answer"
            trouble = await line.forward(request, send, found)
            if trouble is None:
                return
            if isinstance(trouble.error, UserError):
                answer = _error(400, trouble.error)
            else:
                answer = _unavailable(trouble.error) if trouble.is_unheard else _error(502, trouble.error)
        await answer(scope, receive, send)

    return app


def holding_app(app: ASGIApp, reason: str) -> ASGIApp:
    """The application of a leader in doubt. app: the application until then."""

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _READS:
            error = ExternalError(
                f"whether this coordinator leads is in doubt: {reason}", remedy="try again in a moment", retry=True
            )
            await _unavailable(error)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return held


def noting_app(app: ASGIApp, tokens: Tokens, seen: Callable[[], None]) -> ASGIApp:
    """The application of a leader with standbys. seen: called when one of them has shown itself."""

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == _HEALTH:
            headers = Request(scope).headers
            if STANDBY_HEADER in headers and denial("POST", _HEALTH, headers.get("authorization", ""), tokens) is None:
                seen()
        await app(scope, receive, send)

    return noted


def _own_answer(request: Request, tokens: Tokens | None, leader: Leader | None, own_url: str) -> Response | None:
    """The answer of a standby itself; None: the leader's is wanted."""
    if tokens is None:
        return _unavailable(_waits("it has not read the cluster's tokens yet"))
    refusal = refused(request, tokens)
    if refusal is not None:
        return refusal
    if request.url.path == _HEALTH and request.method in _READS:
        return JSONResponse(Health(status="standby", version=__version__).model_dump(mode="json"))
    # its own address is that of its last term; a standby that forwarded this to another one knows an old leader
    if leader is None or leader.url == own_url or FORWARDED_HEADER in request.headers:
        return _unavailable(_waits("no coordinator leads now"))
    return None


def _unavailable(error: HeadraceError) -> JSONResponse:
    return _error(503, error, {"Retry-After": "1", LEADER_HEADER: ""})


def _waits(reason: str) -> ExternalError:
    return ExternalError(f"this coordinator is a standby: {reason}", remedy="try again in a moment", retry=True)


def _error(status: int, error: HeadraceError, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(error_body(error).model_dump(mode="json"), status, headers)
