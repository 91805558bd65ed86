"""The certificates and keys of a control plane: each component, and each user, shows who it is by a certificate."""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

MASTERS = "system:masters"
"""The group that may do everything."""
_LIFE = datetime.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Pair:
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


class ClusterKeys:
    """An authority of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test-authority", None)
        signed = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.authority = Pair(folder / "authority.crt", folder / "authority.key")
        self.authority.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        self.authority.key.write_bytes(_pem(self._key))
        accounts = ec.generate_private_key(ec.SECP256R1())
        self.accounts = Pair(folder / "accounts.pub", folder / "accounts.key")
        """Signs the tokens of service accounts; `certificate` is the public key."""
        self.accounts.key.write_bytes(_pem(accounts))
        self.accounts.certificate.write_bytes(
            accounts.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )

    def server(self, name: str, hosts: Sequence[str]) -> Pair:
        """Of a server that is reached by these names and addresses."""
        names = [_host(each) for each in hosts]
        return self._issue(name, _name(name, None), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, name: str, user: str, group: str | None = None) -> Pair:
        """Of a user."""
        return self._issue(name, _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def kubeconfig(self, name: str, server: str, pair: Pair) -> Path:
        """A kubeconfig of that user at that server."""
        cluster = {"server": server, "certificate-authority": str(self.authority.certificate)}
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        }
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def _issue(self, name: str, subject: x509.Name, use: x509.ObjectIdentifier, hosts: list[x509.GeneralName]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(_pem(key))
        return pair


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # clocks of containers may be behind
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, organization: str | None) -> x509.Name:
    group = [] if organization is None else [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)]
    return x509.Name([*group, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(text: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(text)) if text[0].isdigit() else x509.DNSName(text)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # the controller manager reads keys of this form only
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
