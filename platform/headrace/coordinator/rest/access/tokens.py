"""Decides which requests a token allows. Pure.

Every request needs a token, even one for a route that does not exist. The decision needs only the request's head, so it
is made before a body is read.

    Tokens.full     everything
    Tokens.metrics  only GET of health and metrics, for monitoring and probes
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from headrace.core.errors import InternalError, UserError
from headrace.core.network.mutual_proof import WHERE_A_TOKEN_LIES

_READABLE = {"/v1/health", "/v1/metrics"}


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a cluster. Raises InternalError for an empty one: no coordinator serves without a token."""

    full: str = field(repr=False)
    metrics: str = field(repr=False)

    def __post_init__(self) -> None:
        if not (self.full and self.metrics):
            raise InternalError("a coordinator needs both tokens")


@dataclass(frozen=True, slots=True)
class Denial:
    """The status of a denied request, and why."""

    status: int
    error: UserError


def denial(method: str, path: str, authorization: str, tokens: Tokens) -> Denial | None:
    """Returns why a request is denied, or None. authorization: that header, empty if it is missing."""
    scheme, _, given = authorization.partition(" ")
    shown = given.strip() if scheme.lower() == "bearer" else ""
    if _equal(shown, tokens.full):
        return None
    if _equal(shown, tokens.metrics):
        if method in {"GET", "HEAD"} and path in _READABLE:
            return None
        return Denial(403, UserError("the metrics token reads health and metrics alone", remedy=_REMEDY))
    text = "the token is not this cluster's" if shown else "this cluster wants a token"
    return Denial(401, UserError(f"{method} {path}: {text}", remedy=_REMEDY))


_REMEDY = (
    "set HEADRACE_TOKEN to the cluster's token, or HEADRACE_TOKEN_FILE to a file with it; on the coordinator's home "
    f"neither is needed. {WHERE_A_TOKEN_LIES}"
)


def _equal(shown: str, token: str) -> bool:
    """Compares in constant time, so that the duration reveals nothing about the token."""
    return hmac.compare_digest(shown.encode(), token.encode())
