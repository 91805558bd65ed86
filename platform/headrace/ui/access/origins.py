"""Refuses requests of pages of other sites, and of names that are not this host's (DNS rebinding). Pure."""

from __future__ import annotations

from collections.abc import Mapping

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
