"""Maps the data path's librdkafka settings for connection and login to those of the committer's client.

Two clients connect to the same brokers: librdkafka writes, the committer's own client commits. A pipeline has one set
of settings, in librdkafka's terms. A setting that the second client does not support is an error before the job starts.
Pure, but for `tls_context`, which reads files, and `require_installed`.
"""

from __future__ import annotations

import importlib.util
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.core.errors import UserError
from headrace_connectors.kafka.clients.access_tokens import TokenSettings, oidc_settings, unsecured_settings
from headrace_connectors.kafka.clients.properties import connection_settings, token_source

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_GRANT = "client_credentials"
_MAPPED = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type",
        "sasl.oauthbearer.sub.claim.name",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "https.ca.location",
        "https.ca.pem",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.crl.location",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "client.id",
        "client.dns.lookup",
    }
)
_IGNORED = ("socket.", "broker.", "reconnect.", "client.rack", "client.software.")
"""Ignored: tuning of the data path's sockets is not part of the login."""
_REMEDY = (
    "the committer of delivery: exactly-once speaks TLS by PEM, and SASL by PLAIN, SCRAM, OAUTHBEARER (client "
    "credentials) and GSSAPI: use one of these, or write delivery: at-least-once"
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Verification of the peer, and the client's own certificate. `..._pem`: the text itself instead of a file."""

    ca_location: str = ""
    ca_pem: str = field(default="", repr=False)
    certificate_location: str = ""
    certificate_pem: str = field(default="", repr=False)
    key_location: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    crl_location: str = ""
    ciphers: str = ""
    verify: bool = True
    verify_host: bool = True


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The committer's connection and login settings."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tokens: TokenSettings | None = None
    kerberos_service: str = "kafka"
    client_id: str = "headrace"
    dns_lookup: str = "use_all_dns_ips"
    tls: Tls | None = None


def unmapped(properties: Mapping[str, str]) -> str | None:
    """The error text for the first connection setting that the committer does not support, or None. Without I/O."""
    try:
        client_security(properties)
    except UserError as error:
        return str(error)
    return None


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """The settings of a librdkafka client in the committer's terms. Raises UserError for the first unsupported one."""
    given = connection_settings(properties)
    for name in given:
        if name not in _MAPPED and not name.startswith(_IGNORED):
            raise _no_twin(f"properties: {name!r}")
    protocol = given.get("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise _no_twin(f"properties: security.protocol: {protocol!r}")
    has_login = protocol.startswith("sasl")
    return ClientSecurity(
        protocol=protocol.upper(),
        **_login(given) if has_login else {},
        kerberos_service=given.get("sasl.kerberos.service.name", "kafka"),
        client_id=given.get("client.id", "headrace"),
        dns_lookup=given.get("client.dns.lookup", "use_all_dns_ips"),
        tls=_tls(given) if protocol.endswith("ssl") else None,
    )


def require_installed(security: ClientSecurity) -> None:
    """Raises UserError if the login needs a package that is not installed here."""
    if security.mechanism == "GSSAPI" and importlib.util.find_spec("gssapi") is None:
        raise UserError(
            "sasl.mechanism: GSSAPI needs the Python package gssapi where the committer runs",
            remedy="install it beside the coordinator: pip install gssapi",
        )


def _login(given: Mapping[str, str]) -> dict[str, Any]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "GSSAPI"))
    if mechanism not in _MECHANISMS:
        raise _no_twin(f"properties: sasl.mechanism: {mechanism!r}")
    if mechanism == "GSSAPI":
        return {"mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism, "tokens": _tokens(given)}
    for name in ("sasl.username", "sasl.password"):
        if name not in given:
            raise UserError(f"properties: {name} is missing", remedy=f"sasl.mechanism {mechanism} needs it")
    return {"mechanism": mechanism, "username": given["sasl.username"], "password": given["sasl.password"]}


def _tokens(given: Mapping[str, str]) -> TokenSettings:
    match token_source(given):
        case "oidc":
            if given.get("sasl.oauthbearer.grant.type", _GRANT) != _GRANT:
                raise _no_twin("properties: sasl.oauthbearer.grant.type other than client_credentials")
            return oidc_settings(given)
        case "unsecured":
            return unsecured_settings(given)
        case None:
            raise _no_twin("properties: sasl.mechanism: OAUTHBEARER without sasl.oauthbearer.method: oidc")


def _tls(given: Mapping[str, str]) -> Tls:
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in {"https", "none"}:
        raise _no_twin(f"properties: ssl.endpoint.identification.algorithm: {algorithm!r}")
    if given.get("ssl.ca.location") == "probe":
        given = {name: value for name, value in given.items() if name != "ssl.ca.location"}
    for part in ("ssl.certificate", "ssl.key", "ssl.ca"):
        if f"{part}.location" in given and f"{part}.pem" in given:
            raise UserError(f"properties: {part}.location and {part}.pem are given", remedy="keep one of them")
    return Tls(
        ca_location=given.get("ssl.ca.location", ""),
        ca_pem=given.get("ssl.ca.pem", ""),
        certificate_location=given.get("ssl.certificate.location", ""),
        certificate_pem=given.get("ssl.certificate.pem", ""),
        key_location=given.get("ssl.key.location", ""),
        key_pem=given.get("ssl.key.pem", ""),
        key_password=given.get("ssl.key.password", ""),
        crl_location=given.get("ssl.crl.location", ""),
        ciphers=given.get("ssl.cipher.suites", ""),
        verify=given.get("enable.ssl.certificate.verification", "true") in {"true", "t", "1"},
        verify_host=algorithm == "https",
    )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The TLS context for connections. Raises UserError for missing or invalid files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.verify and tls.verify_host
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    try:
        _load_authorities(context, tls)
        _load_identity(context, tls)
        if tls.crl_location:
            context.load_verify_locations(cafile=tls.crl_location)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if tls.ciphers:
            context.set_ciphers(tls.ciphers)
    except (OSError, ValueError) as cause:
        raise UserError(
            f"the TLS settings for Kafka cannot be used: {cause}", remedy="correct ssl.* under `properties:`"
        ) from cause
    return context


def _load_authorities(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.ca_pem:
        context.load_verify_locations(cadata=tls.ca_pem)
    elif tls.ca_location and Path(tls.ca_location).is_dir():
        context.load_verify_locations(capath=tls.ca_location)
    elif tls.ca_location:
        context.load_verify_locations(cafile=tls.ca_location)
    else:
        context.load_default_certs()


def _load_identity(context: ssl.SSLContext, tls: Tls) -> None:
    """Loads the client's certificate and key. Python reads them only from files, so PEM texts are written to temporary
    ones."""
    if not (tls.certificate_location or tls.certificate_pem):
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as name:  # of mode 0700
        certificate, key = tls.certificate_location, tls.key_location
        if tls.certificate_pem:
            certificate = _stored(Path(name, "certificate"), tls.certificate_pem)
        if tls.key_pem:
            key = _stored(Path(name, "key"), tls.key_pem)
        # an empty password, never None: with None OpenSSL prompts at the terminal
        context.load_cert_chain(certificate, key or None, password=tls.key_password)


def _stored(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _no_twin(what: str) -> UserError:
    return UserError(f"{what} is not known to the committer", remedy=_REMEDY)
