"""The committer's login as connection settings: a TLS context, and a SASL mechanism for each connection."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from headrace_connectors.kafka.clients.client_security import ClientSecurity, require_installed, tls_context
from headrace_connectors.kafka.requests.access_tokens import AccessTokens
from headrace_connectors.kafka.requests.connection import ConnectionSettings
from headrace_connectors.kafka.requests.sasl import Gssapi, OAuthBearer, Plain, SaslMechanism, Scram

_CANONICAL = "resolve_canonical_bootstrap_servers_only"


def connection_settings_of(security: ClientSecurity) -> ConnectionSettings:
    """The settings for all connections of one client, which share an access token. Raises UserError for invalid TLS
    files and for a missing package."""
    require_installed(security)
    tokens = AccessTokens(security.tokens) if security.tokens is not None else None
    return ConnectionSettings(
        client_id=security.client_id,
        tls=None if security.tls is None else tls_context(security.tls),
        login=None if security.mechanism is None else _login(security, tokens),
        forget_login=lambda: _forgotten(tokens),
        canonical=security.dns_lookup == _CANONICAL,
    )


def _login(security: ClientSecurity, tokens: AccessTokens | None) -> Callable[[str], SaslMechanism]:
    username, password = security.username or "", security.password or ""
    match security.mechanism:
        case "PLAIN":
            return lambda _host: Plain(username, password)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512" as name:
            return lambda _host: Scram(name, username, password)
        case "GSSAPI":
            return lambda host: Gssapi(importlib.import_module("gssapi"), security.kerberos_service, host)
        case "OAUTHBEARER":
            assert tokens is not None, "client_security returns token settings with this mechanism"
            return lambda _host: OAuthBearer(tokens.token(), tokens.extensions)
        case other:
            raise AssertionError(f"client_security rejects mechanism {other!r}")


def _forgotten(tokens: AccessTokens | None) -> bool:
    if tokens is None:
        return False
    tokens.forget()
    return True
