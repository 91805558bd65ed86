"""Refuses requests that a web page of another origin makes a user's browser send. Pure.

A page may send simple requests (GET, HEAD, and POST with a form's content type) without a preflight request, to any
address that the browser reaches, including loopback. The page cannot read the responses, but the requests have their
effects. Browsers identify the page in `Origin` and `Sec-Fetch-Site`, which no script can change. All other requests
need a preflight request, which this server never accepts: therefore a POST has to be JSON.

See "Cross-Site Request Forgery Prevention" of OWASP, and Fetch Metadata (W3C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.errors import UserError

_OWN_SITE = {"same-origin", "none"}
"""`none`: the user navigated directly, for example by a typed address."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status of a refused request, and why."""

    status: int
    error: UserError


def refusal(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Returns why a request is refused, or None. headers: by lower-case name."""
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
    """Whether the user followed a link. That is allowed: it changes nothing, and the page with the link cannot read the
    response."""
    return method in {"GET", "HEAD"} and headers.get("sec-fetch-mode") == "navigate"


def _authority(origin: str) -> str:
    """Returns `host:port` of an origin; for the opaque origin `null` it returns no valid host."""
    return origin.partition("://")[2]


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
