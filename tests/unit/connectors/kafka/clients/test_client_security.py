"""librdkafka's names of connection and login in the committer's terms."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace_connectors.kafka.clients.access_tokens import TokenSettings
from headrace_connectors.kafka.clients.client_security import (
    ClientSecurity,
    Tls,
    client_security,
    require_installed,
    tls_context,
    unmapped,
)

LOGIN = {"sasl.username": "ann", "sasl.password": "p"}
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=p",
    "https.ca.location": "ca.pem",
}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, ClientSecurity()),
        # not about the connection, or only about how its sockets are tuned
        ({"linger.ms": "5", "socket.keepalive.enable": "true", "broker.address.family": "v4"}, ClientSecurity()),
        ({"client.id": "x", "client.rack": "r1"}, ClientSecurity(client_id="x")),
        (
            {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
            ClientSecurity(dns_lookup="resolve_canonical_bootstrap_servers_only"),
        ),
        ({"security.protocol": "ssl"}, ClientSecurity(protocol="SSL", tls=Tls())),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **LOGIN},
            ClientSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="ann", password="p"),
        ),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", **LOGIN},
            ClientSecurity(protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="ann", password="p", tls=Tls()),
        ),
        (
            OIDC,
            ClientSecurity(
                protocol="SASL_SSL",
                mechanism="OAUTHBEARER",
                tokens=TokenSettings(
                    endpoint="https://idp/token",
                    client_id="me",
                    client_secret="s",
                    scope="kafka",
                    ca_location="ca.pem",
                    extensions={"logicalCluster": "lkc-1", "pool": "p"},
                ),
                tls=Tls(),
            ),
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=ann scope=a,b lifeSeconds=60 extension_trace=7",
            },
            ClientSecurity(
                protocol="SASL_PLAINTEXT",
                mechanism="OAUTHBEARER",
                tokens=TokenSettings(claims={"sub": "ann", "scope": ["a", "b"]}, life_s=60, extensions={"trace": "7"}),
            ),
        ),
        # librdkafka's default mechanism
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "k"},
            ClientSecurity(protocol="SASL_PLAINTEXT", mechanism="GSSAPI", kerberos_service="k"),
        ),
        # a login that is given is not used where the protocol has none
        ({"sasl.mechanism": "PLAIN", **LOGIN}, ClientSecurity()),
        (
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "ca.pem",
                "ssl.certificate.location": "c.pem",
                "ssl.key.location": "k.pem",
                "ssl.key.password": "q",
                "ssl.crl.location": "crl.pem",
                "ssl.cipher.suites": "ECDHE+AESGCM",
                "ssl.endpoint.identification.algorithm": "none",
                "enable.ssl.certificate.verification": "false",
            },
            ClientSecurity(
                protocol="SSL",
                tls=Tls(
                    ca_location="ca.pem",
                    certificate_location="c.pem",
                    key_location="k.pem",
                    key_password="q",
                    crl_location="crl.pem",
                    ciphers="ECDHE+AESGCM",
                    verify=False,
                    verify_host=False,
                ),
            ),
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.pem": "A", "ssl.certificate.pem": "B", "ssl.key.pem": "C"},
            ClientSecurity(protocol="SSL", tls=Tls(ca_pem="A", certificate_pem="B", key_pem="C")),
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "probe"}, ClientSecurity(protocol="SSL", tls=Tls())),
    ],
)
def test_what_is_mapped(properties: dict[str, str], expected: ClientSecurity) -> None:
    assert client_security(properties) == expected
    assert unmapped(properties) is None


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        (OIDC | {"sasl.oauthbearer.client.secret": ""}, "sasl.oauthbearer.client.secret is missing"),
        (OIDC | {"sasl.oauthbearer.token.endpoint.url": "file:///x"}, "token.endpoint.url is no http"),
        (OIDC | {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "grant.type"),
        (OIDC | {"sasl.oauthbearer.metadata.authentication.type": "azure_imds"}, "metadata.authentication.type"),
        (OIDC | {"sasl.oauthbearer.assertion.file": "a"}, "assertion.file"),
        ({"ssl.keystore.location": "k.p12"}, "ssl.keystore.location"),
        ({"ssl.ca.certificate.stores": "Root"}, "ssl.ca.certificate.stores"),
        ({"ssl.engine.location": "e"}, "ssl.engine.location"),
        ({"sasl.kerberos.keytab": "k"}, "sasl.kerberos.keytab"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
            },
            "sasl.oauthbearer.config names no principal",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}, "sasl.password"),
        ({"security.protocol": "tls"}, "security.protocol"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "identification.algorithm"),
        ({"security.protocol": "SSL", "ssl.ca.pem": "A", "ssl.ca.location": "a"}, "ssl.ca.location and ssl.ca.pem"),
    ],
)
def test_what_has_no_twin_is_named(properties: dict[str, str], named: str) -> None:
    with pytest.raises(UserError, match="properties") as caught:
        client_security(properties)
    assert named in caught.value.message
    assert caught.value.remedy
    assert named in str(unmapped(properties))


def test_secrets_are_not_shown() -> None:
    security = client_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": "s3cret",
            "ssl.key.pem": "s3cret",
            "ssl.key.password": "s3cret",
        }
    )
    assert "s3cret" not in repr(security)
    assert "s3cret" not in repr(client_security(OIDC | {"sasl.oauthbearer.client.secret": "s3cret"}))


def test_files_that_are_not_there_are_the_users_to_correct(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="TLS settings"):
        tls_context(Tls(ca_location=str(tmp_path / "none.pem")))
    with pytest.raises(UserError, match="TLS settings"):
        tls_context(Tls(ca_pem="no certificate"))


def test_verification_is_on_but_by_choice() -> None:
    assert tls_context(Tls()).verify_mode == ssl.CERT_REQUIRED
    assert tls_context(Tls()).check_hostname
    assert not tls_context(Tls(verify_host=False)).check_hostname
    assert tls_context(Tls(verify=False)).verify_mode == ssl.CERT_NONE


def test_kerberos_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    require_installed(ClientSecurity(mechanism="PLAIN"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs the Python package gssapi"):
        require_installed(ClientSecurity(mechanism="GSSAPI"))
