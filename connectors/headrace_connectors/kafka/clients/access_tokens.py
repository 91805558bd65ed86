"""Access tokens for SASL OAUTHBEARER, obtained as librdkafka does from the same properties.

Two kinds: self-issued unsigned tokens, for test brokers (`enable.sasl.oauthbearer.unsecure.jwt`), and tokens of an
OpenID Connect provider by client credentials (`sasl.oauthbearer.method=oidc`). Knows nothing of brokers.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError, UserError

_RENEWED_AT = 0.8
"""Share of a token's lifetime after which no connection is opened with it. librdkafka renews at the same share."""
_ANSWER_TIMEOUT_S = 10.0
_ANSWER_BYTES_MAX = 1 << 20
_UNSECURED_LIFE_S = 3_600
_HTTP_ERROR_RETRIED = 500
_HTTP_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """The source of tokens. `endpoint`: empty for self-issued unsigned tokens.

    claims       of unsigned tokens
    life_s       of unsigned tokens, in s
    extensions   further names and values for the broker
    """

    endpoint: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca_location: str = ""
    ca_pem: str = field(default="", repr=False)
    claims: Mapping[str, Any] = field(default_factory=dict)
    life_s: int = _UNSECURED_LIFE_S
    extensions: Mapping[str, str] = field(default_factory=dict)


def oidc_settings(given: Mapping[str, str]) -> TokenSettings:
    """Settings from the properties of `sasl.oauthbearer.method=oidc`. Raises UserError for a missing one."""
    # librdkafka has two names for both credentials
    endpoint = _required(given, "sasl.oauthbearer.token.endpoint.url")
    client_id = _required(given, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
    client_secret = _required(
        given, "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"
    )
    if urllib.parse.urlsplit(endpoint).scheme not in {"http", "https"}:
        raise UserError(
            "properties: sasl.oauthbearer.token.endpoint.url is no http or https address",
            remedy="write it as https://host/path",
        )
    return TokenSettings(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=client_secret,
        scope=given.get("sasl.oauthbearer.scope", ""),
        ca_location=given.get("https.ca.location", ""),
        ca_pem=given.get("https.ca.pem", ""),
        extensions=_pairs(given.get("sasl.oauthbearer.extensions", ""), ","),
    )


def _required(given: Mapping[str, str], *names: str) -> str:
    found = next((given[name] for name in names if given.get(name)), "")
    if not found:
        raise UserError(f"properties: {names[0]} is missing", remedy="sasl.oauthbearer.method: oidc needs it")
    return found


def unsecured_settings(given: Mapping[str, str]) -> TokenSettings:
    """Settings from `sasl.oauthbearer.config`: `principal=ann scope=a,b lifeSeconds=3600 extension_traceId=7`."""
    pairs = _pairs(given.get("sasl.oauthbearer.config", ""), " ")
    if "principal" not in pairs:
        raise UserError(
            "properties: sasl.oauthbearer.config names no principal",
            remedy="write sasl.oauthbearer.config: principal=<name>; unsigned tokens are for tests only",
        )
    claims: dict[str, Any] = {pairs.get("principalClaimName", "sub"): pairs["principal"]}
    if "scope" in pairs:
        claims[pairs.get("scopeClaimName", "scope")] = pairs["scope"].split(",")
    extensions = {name.removeprefix("extension_"): value for name, value in pairs.items() if "extension_" in name}
    life_s = pairs.get("lifeSeconds", "")
    return TokenSettings(
        claims=claims, life_s=int(life_s) if life_s.isdecimal() else _UNSECURED_LIFE_S, extensions=extensions
    )


def _pairs(text: str, between: str) -> dict[str, str]:
    parts = (part.partition("=") for part in text.split(between) if "=" in part)
    return {name.strip(): value.strip() for name, _, value in parts}


class AccessTokens:
    """Caches one token, and fetches the next one after 80 % of its lifetime. Used by one thread.

    clock   wall clock in seconds
    """

    def __init__(self, settings: TokenSettings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._token = ""
        self._renew_at = 0.0

    @property
    def extensions(self) -> Mapping[str, str]:
        """Extensions to send to the broker with each token."""
        return self._settings.extensions

    def token(self) -> str:
        """A valid token. Raises ExternalError, with `retry` if no provider answers."""
        now = self._clock()
        if now >= self._renew_at:
            self._token, expires_at = self._issued(now)
            self._renew_at = now + _RENEWED_AT * (expires_at - now)
        return self._token

    def forget(self) -> None:
        """Discards a token that the broker rejected, so that the next one is fetched."""
        self._renew_at = 0.0

    def _issued(self, now: float) -> tuple[str, float]:
        settings = self._settings
        if settings.endpoint:
            return _fetched(settings, now)
        expires_at = now + settings.life_s
        return unsecured_token({**settings.claims, "iat": int(now), "exp": int(expires_at)}), expires_at


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """A JSON Web Token without a signature."""
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
    return ".".join(part.decode() for part in parts) + "."


def _fetched(settings: TokenSettings, now: float) -> tuple[str, float]:
    """Fetches a token by the client credentials grant (RFC 6749, 4.4): the token, and its expiry time."""
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    login = base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()
    request = urllib.request.Request(
        settings.endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    try:
        context = _https_context(settings) if settings.endpoint.startswith("https") else None
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S, context=context) as answer:
            return _token_of(answer.read(_ANSWER_BYTES_MAX), now)
    except urllib.error.HTTPError as error:
        with error:
            retry = error.code >= _HTTP_ERROR_RETRIED or error.code == _HTTP_TOO_MANY
            raise _no_token(settings, f"it answers {error.code} {error.reason}", retry=retry) from error
    except OSError as error:
        raise _no_token(settings, str(error), retry=True) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _no_token(settings, f"its answer is no token: {type(error).__name__}", retry=False) from error


def _token_of(content: bytes, now: float) -> tuple[str, float]:
    answer = json.loads(content)
    token = str(answer["access_token"])
    if "expires_in" in answer:
        return token, now + float(answer["expires_in"])
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return token, float(claims["exp"])


def _https_context(settings: TokenSettings) -> ssl.SSLContext:
    if settings.ca_pem:
        return ssl.create_default_context(cadata=settings.ca_pem)
    if settings.ca_location and settings.ca_location != "probe":
        if Path(settings.ca_location).is_dir():
            return ssl.create_default_context(capath=settings.ca_location)
        return ssl.create_default_context(cafile=settings.ca_location)
    return ssl.create_default_context()


def _no_token(settings: TokenSettings, why: str, *, retry: bool) -> ExternalError:
    # the URL may contain credentials: only its host is named
    host = urllib.parse.urlsplit(settings.endpoint).hostname
    return ExternalError(
        f"no access token for Kafka from {host}: {why}",
        remedy="check sasl.oauthbearer.token.endpoint.url, .client.id, .client.secret and https.ca.location under "
        "`properties:`",
        retry=retry,
    )
