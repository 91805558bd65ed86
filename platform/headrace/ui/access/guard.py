"""The door of the page: plain ASGI around everything, so that files and the web socket pass it, too.

    refused origin or host            403
    session cookie, or bearer token   served
    /login?token=..  POST /login      a session, then the page
    /logout                           ends the session; a link on another site cannot
    anything else                     a page is redirected to /login, a file answered with 401, a socket closed

A refused origin is a page of another site, a refused host a name that is not this host's (DNS rebinding).
The cookie is HttpOnly, SameSite=Strict, and Secure with TLS. A page that is refused is never built.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import secrets
import time
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORM_BYTES_MAX = 4096
_POLICY_VIOLATION = 1008
SECURITY_HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # not `no-referrer`: browsers would send the form of the login with the origin `null`
    "Referrer-Policy": "same-origin",
}


class Guard:
    """Lets requests with a session or the token through. port: in the cookie's name, because cookies ignore ports."""

    def __init__(self, inner: ASGIApp, sessions: Sessions, *, port: int, any_host: bool) -> None:
        self._inner = inner
        self._sessions = sessions
        self._cookie = f"headrace_ui_{port}"
        self._any_host = any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Called for each request, socket and lifespan."""
        if scope["type"] not in {"http", "websocket"}:
            await self._inner(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        answer = await self._answer(scope, connection, receive)
        if answer is None:
            await self._inner(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            answer.headers.update(SECURITY_HEADERS)
            await answer(scope, receive, send)

    async def _answer(self, scope: Scope, connection: HTTPConnection, receive: Receive) -> Response | None:
        """The answer in place of the page's own; None: the request may pass."""
        is_http = scope["type"] == "http"
        navigates = is_http and scope["method"] in {"GET", "HEAD"} and _opens_page(connection.headers)
        path = scope["path"]
        leaves = path == "/logout"
        why = refusal(connection.headers, navigates=navigates and not leaves, any_host=self._any_host)
        if why is not None:
            return PlainTextResponse(f"refused: {why}\n", 403)
        if is_http and path == "/login":
            return await self._login(scope, connection, receive)
        if is_http and leaves:
            self._sessions.end(connection.cookies.get(self._cookie, ""), int(time.time()))
            left = RedirectResponse("/login", 303)
            left.delete_cookie(self._cookie, httponly=True, samesite="strict")
            return left
        if self._may_pass(connection):
            return None
        if is_http and navigates:
            return RedirectResponse("/login", 303)
        return PlainTextResponse("log in first\n", 401)

    def _may_pass(self, connection: HTTPConnection) -> bool:
        scheme, _, token = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._sessions.is_token(token.strip()):
            return True
        return self._sessions.is_valid(connection.cookies.get(self._cookie, ""), int(time.time()))

    async def _login(self, scope: Scope, connection: HTTPConnection, receive: Receive) -> Response:
        given = connection.query_params.get("token")
        if scope["method"] == "POST":
            form = parse_qs((await _body(receive)).decode(errors="replace"))
            given = form.get("token", [""])[0]
        if given is None:
            return HTMLResponse(login_form(""))
        if not self._sessions.is_token(given.strip()):
            return HTMLResponse(login_form("That is not the token."), 401)
        session = self._sessions.made(int(time.time()), secrets.token_urlsafe(16))
        entered = RedirectResponse("/", 303)
        secure = scope["scheme"] == "https"
        entered.set_cookie(
            self._cookie, session, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=secure
        )
        return entered


def _opens_page(headers: Headers) -> bool:
    """Whether a browser asks for a page, not for a file of one."""
    return headers.get("sec-fetch-mode", "navigate") == "navigate" and "text/html" in headers.get("accept", "")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
        await send(message)

    return sending


async def _body(receive: Receive) -> bytes:
    """The body of a small form; a longer one is cut, and then holds no token."""
    body = b""
    while len(body) <= FORM_BYTES_MAX:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:FORM_BYTES_MAX]


LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
_OWN_SITE = frozenset({"same-origin", "none"})


def refusal(headers: Mapping[str, str], *, navigates: bool, any_host: bool) -> str | None:
    """Why a request is refused, or None. headers: by lower-case name.

    navigates   it opens a page: the user may have followed a link on another site, which cannot read the answer
    any_host    the page is served to other hosts, under names that only its users know
    """
    host = headers.get("host", "")
    if not any_host and host.rpartition(":")[0] not in LOOPBACK_NAMES and host not in LOOPBACK_NAMES:
        return f"{host!r} is not a name of loopback"
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin.partition("://")[2] != host:
        return f"a page of {origin} sent this request"
    if site is not None and site not in _OWN_SITE and not navigates:
        return f"a page of another site sent this request ({site})"
    return None


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 sans-serif }
body { max-width: 24rem; margin: 4rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem }
input, button { font: inherit; padding: .5rem .7rem; margin: .4rem 0; width: 100%; box-sizing: border-box }
p.wrong { color: #d9482b }
"""


def login_form(wrong: str) -> str:
    """The page that asks for the token: plain HTML, without NiceGUI. wrong: why the last try failed, or empty."""
    refused = f'<p class="wrong" role="alert">{html.escape(wrong)}</p>' if wrong else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in - Headrace</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<h1>Headrace</h1>{refused}<form method="post" action="/login"><label for="token">Token of this page</label>'
        '<input id="token" type="password" name="token" autocomplete="current-password" autofocus required>'
        "<button>Open</button></form></body></html>"
    )


SESSION_SECONDS = 12 * 3600
ENDED_MAX = 10_000
"""Greatest number of ended sessions that are kept; the earliest is dropped."""


class Sessions:
    """Creates and checks sessions of one token. A session is a signed text in a cookie. No clock, no I/O.

        EXPIRES.NONCE.SIGNATURE     HMAC-SHA256 of the first two by a key that is derived from the page's token

    So sessions survive a restart of the page. Another token ends all of them. A logout ends one until the page
    restarts: ended sessions are kept in memory. The text contains neither the token nor anything from which it could
    be computed.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._key = hmac.new(self._token, b"sessions of the page", hashlib.sha256).digest()
        self._ended: dict[str, None] = {}

    def is_token(self, text: str) -> bool:
        """Whether the text is the page's token. The time of the comparison does not depend on the text."""
        return hmac.compare_digest(text.encode(), self._token)

    def made(self, now_s: int, nonce: str) -> str:
        """A new session. nonce: random, so that no two are equal."""
        text = f"{now_s + SESSION_SECONDS}.{nonce}"
        return f"{text}.{self._signature(text)}"

    def is_valid(self, session: str, now_s: int) -> bool:
        """Whether the session was made with this token and has not expired."""
        text, _, signature = session.rpartition(".")
        expires = text.partition(".")[0]
        signed = hmac.compare_digest(signature.encode(), self._signature(text).encode())
        return signed and expires.isdecimal() and now_s < int(expires) and session not in self._ended

    def end(self, session: str, now_s: int) -> None:
        """Ends a session before its time."""
        if self.is_valid(session, now_s):
            self._ended[session] = None
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def _signature(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
