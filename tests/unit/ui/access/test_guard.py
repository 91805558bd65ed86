"""The guard around an application: nothing of it is reached without a session or the token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from headrace.ui.access.guard import FORM_BYTES_MAX, SESSION_SECONDS, Guard, Sessions, refusal

TOKEN = "the token of tests"
PAGE = {"accept": "text/html"}


class Inner:
    """Records what has reached it."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.reached.append(f"{scope['type']} {scope.get('path', '')}")
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inside"})


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def guard(inner: Inner) -> Guard:
    return Guard(inner, Sessions(TOKEN), port=8490, any_host=False)


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


class Asking:
    """A client of the guard that keeps its cookies."""

    def __init__(self, guard: Guard, loop: asyncio.Runner, scheme: str = "http") -> None:
        self._loop = loop
        self._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(guard), base_url=f"{scheme}://127.0.0.1:8490", follow_redirects=False
        )

    def __call__(self, method: str, path: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._loop.run(self._http.request(method, path, headers=named))

    @property
    def cookies(self) -> httpx.Cookies:
        return self._http.cookies

    def post_token(self, token: str) -> httpx.Response:
        return self._loop.run(self._http.post("/login", data={"token": token}))


def test_without_a_session_pages_lead_to_the_login_and_files_are_refused(
    guard: Guard, inner: Inner, loop: asyncio.Runner
) -> None:
    ask = Asking(guard, loop)
    page = ask("GET", "/jobs/abc", **PAGE)
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert ask("GET", "/_nicegui/static/nicegui.js").status_code == 401
    assert ask("POST", "/_nicegui_ws/socket.io/").status_code == 401
    assert ask("GET", "/", authorization="Bearer wrong", **PAGE).status_code == 303
    assert "Token of this page" in ask("GET", "/login").text
    assert inner.reached == []


def test_the_token_makes_a_session_by_form_and_by_link(guard: Guard, inner: Inner, loop: asyncio.Runner) -> None:
    for entered in (Asking(guard, loop).post_token(TOKEN), Asking(guard, loop)("GET", f"/login?token={TOKEN}")):
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"]
        assert cookie.startswith("headrace_ui_8490=")
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        assert "Secure" not in cookie
        assert TOKEN not in cookie
    ask = Asking(guard, loop)
    ask.post_token(TOKEN)
    inside = ask("GET", "/jobs/abc", **PAGE)
    assert (inside.text, inside.headers["x-frame-options"]) == ("inside", "DENY")
    assert ask("GET", "/logout", **PAGE).headers["location"] == "/login"
    assert ask("GET", "/", **PAGE).status_code == 303
    assert inner.reached == ["http /jobs/abc"]


def test_a_copy_of_the_cookie_ends_with_its_session(guard: Guard, loop: asyncio.Runner) -> None:
    ask, thief = Asking(guard, loop), Asking(guard, loop)
    ask.post_token(TOKEN)
    copy = "; ".join(f"{name}={value}" for name, value in ask.cookies.items())
    assert thief("GET", "/", cookie=copy, **PAGE).text == "inside"
    ask("GET", "/logout", **PAGE)
    assert thief("GET", "/", cookie=copy, **PAGE).headers["location"] == "/login"


def test_another_site_cannot_log_out(guard: Guard, loop: asyncio.Runner) -> None:
    ask = Asking(guard, loop)
    ask.post_token(TOKEN)
    assert ask("GET", "/logout", sec_fetch_site="cross-site", sec_fetch_mode="navigate", **PAGE).status_code == 403
    assert ask("GET", "/", **PAGE).text == "inside"


def test_with_tls_the_cookie_is_secure(guard: Guard, loop: asyncio.Runner) -> None:
    assert "Secure" in Asking(guard, loop, "https").post_token(TOKEN).headers["set-cookie"]


def test_a_wrong_token_makes_no_session(guard: Guard, inner: Inner, loop: asyncio.Runner) -> None:
    ask = Asking(guard, loop)
    for wrong in ("", "x", TOKEN + "x", "y" * 2 * FORM_BYTES_MAX):
        refused = ask.post_token(wrong)
        assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
        assert "not the token" in refused.text
    assert ask("GET", "/", **PAGE).status_code == 303
    assert inner.reached == []


def test_the_bearer_token_passes_and_foreign_pages_do_not_even_with_it(
    guard: Guard, inner: Inner, loop: asyncio.Runner
) -> None:
    ask = Asking(guard, loop)
    bearer = f"Bearer {TOKEN}"
    assert ask("GET", "/", authorization=bearer).text == "inside"
    assert ask("GET", "/", authorization=bearer, origin="http://evil.example").status_code == 403
    assert ask("GET", "/", authorization=bearer, host="rebound.example").status_code == 403
    assert ask("POST", "/login", sec_fetch_site="cross-site").status_code == 403
    assert inner.reached == ["http /"]


def test_the_web_socket_takes_a_session_of_its_own_site(guard: Guard, inner: Inner, loop: asyncio.Runner) -> None:
    def opened(**headers: str) -> list[str]:
        sent: list[str] = []

        async def send(message: Message) -> None:
            sent.append(message["type"])

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        raw = [(b"host", b"127.0.0.1:8490"), *((name.encode(), value.encode()) for name, value in headers.items())]
        scope: Scope = {"type": "websocket", "path": "/socket", "headers": raw, "query_string": b"", "scheme": "ws"}
        loop.run(_call(guard, scope, receive, send))
        return sent

    session = Sessions(TOKEN).made(10**12, "n")
    cookie = f"headrace_ui_8490={session}"
    assert opened() == ["websocket.close"]
    assert opened(cookie=cookie, origin="http://evil.example") == ["websocket.close"]
    assert opened(cookie="headrace_ui_8490=1.2.3") == ["websocket.close"]
    assert inner.reached == []
    assert opened(cookie=cookie, origin="http://127.0.0.1:8490") == []
    assert inner.reached == ["websocket /socket"]


async def _call(guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
    await guard(scope, receive, send)


NOW = 1_769_850_000


def test_a_session_is_valid_until_it_expires_also_after_a_restart() -> None:
    session = Sessions("secret").made(NOW, "nonce")
    again = Sessions("secret")
    assert again.is_valid(session, NOW)
    assert again.is_valid(session, NOW + SESSION_SECONDS - 1)
    assert not again.is_valid(session, NOW + SESSION_SECONDS)


def test_a_session_of_another_token_or_one_that_was_changed_is_not_valid() -> None:
    sessions = Sessions("secret")
    session = sessions.made(NOW, "nonce")
    assert not Sessions("other").is_valid(session, NOW)
    expires, nonce, signature = session.split(".")
    later = str(int(expires) + 1)
    for forged in ("", ".", "..", f"{later}.{nonce}.{signature}", f"{expires}.x.{signature}", f"{expires}.{nonce}."):
        assert not sessions.is_valid(forged, NOW)
    assert not sessions.is_valid(session + "ä", NOW)
    assert "secret" not in session


def test_only_the_token_is_the_token() -> None:
    sessions = Sessions("secret")
    assert sessions.is_token("secret")
    assert not any(sessions.is_token(text) for text in ("", "secre", "secrets", "ä"))


def refused(*, navigates: bool = False, any_host: bool = False, **headers: str) -> str | None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return refusal(named, navigates=navigates, any_host=any_host)


def test_own_pages_and_tools_pass() -> None:
    assert refused(host="127.0.0.1:8490") is None
    assert refused(host="localhost:8490", origin="http://localhost:8490", sec_fetch_site="same-origin") is None
    assert refused(host="[::1]:8490") is None
    assert refused(host="page.example", origin="https://page.example", any_host=True) is None


def test_pages_of_other_sites_and_rebound_names_are_refused() -> None:
    assert "not a name of loopback" in (refused(host="rebound.example:8490") or "")
    assert "http://evil.example" in (refused(host="127.0.0.1:8490", origin="http://evil.example") or "")
    assert refused(host="127.0.0.1:8490", origin="null") is not None
    assert "cross-site" in (refused(host="127.0.0.1:8490", sec_fetch_site="cross-site") or "")
    assert refused(host="127.0.0.1:8490", sec_fetch_site="same-site") is not None


def test_a_link_on_another_site_may_open_a_page() -> None:
    assert refused(host="127.0.0.1:8490", sec_fetch_site="cross-site", navigates=True) is None
