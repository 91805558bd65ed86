"""Sessions: made with a token, checked with the same one, and for a time."""

from __future__ import annotations

from headrace.ui.access.guard import refusal
from headrace.ui.access.sessions import SESSION_SECONDS, Sessions

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
