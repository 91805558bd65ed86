"""Requests that a web page of another origin has a user's browser send. Pure.

A page may send simple requests (GET, HEAD, and POST with a form's content type) to any address that the browser
reaches, loopback included, without asking first; it cannot read the answers, but the requests take effect. Browsers
name the page in `Origin` and `Sec-Fetch-Site`, which no script can change. Everything that is not simple is asked for
by a preflight request first, which nothing here answers: hence a POST has to be JSON.

See "Cross-Site Request Forgery Prevention" of OWASP, and Fetch Metadata (W3C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import UserError

_OWN_SITE = {"same-origin", "none"}
"""`none`: the user's own doing, such as a typed address."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status that a refused request gets, and why."""

    status: int
    error: UserError


def refusal(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Why a request is refused, if it is. headers: by lower-case name."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _OWN_SITE and not _navigates(method, headers):
        return Refusal(403, UserError(f"a web page of another site sent this request ({site})", remedy=_REMEDY))
    if origin is not None and _authority(origin) != headers.get("host"):
        return Refusal(403, UserError(f"a web page of {origin} sent this request", remedy=_REMEDY))
    if method == "POST" and not _is_json(headers.get("content-type", "")):
        text = "a POST request has to say `Content-Type: application/json`"
        return Refusal(415, UserError(text, remedy="also where it has no body: browsers let no other page send that"))
    return None


_REMEDY = "requests of browsers are answered for this address's own pages only"


def _navigates(method: str, headers: Mapping[str, str]) -> bool:
    """A link on another page leads here: nothing changes, and that page sees nothing of it."""
    return method in {"GET", "HEAD"} and headers.get("sec-fetch-mode") == "navigate"


def _authority(origin: str) -> str:
    """`host:port` of an origin; of the opaque origin `null` nothing that is a host."""
    return origin.partition("://")[2]


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
