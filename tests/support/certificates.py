"""Certificates for tests: an authority, and what it signs, as PEM files that brokers and clients read."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.tls.files import TlsFiles

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """Files: the certificate, its key, and both in one (a key store of type PEM, for Kafka)."""

    certificate: Path
    key: Path
    store: Path


class Authority:
    """Signs certificates; `certificate` is the file that others trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        signed = (
            _certificate(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        host: str = "127.0.0.1",
        other_hosts: Sequence[str] = (),
        organization: str | None = None,
        password: str = "",
        lasts: datetime.timedelta = DAY,
    ) -> Issued:
        """A certificate for `name` at `host` and other hosts; the key is encrypted where there is a password.

        `organization`: which Kubernetes reads as a group. `lasts`: from now on; less than nothing: it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [_host(each) for each in (host, *other_hosts)]
        signed = (
            _certificate(_named(name, organization), self._name, key.public_key(), lasts)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        protection = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        texts = (
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection),
        )
        issued = Issued(*(self._folder / f"{name}-{part}.pem" for part in ("certificate", "key", "store")))
        for path, text in zip((issued.certificate, issued.key), texts, strict=True):
            path.write_bytes(text)
        issued.store.write_bytes(texts[1] + texts[0])
        return issued


def _named(name: str, organization: str | None = None) -> x509.Name:
    of = [] if organization is None else [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)]
    return x509.Name([*of, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)


def tls_files_of(
    authority: Authority, name: str, *, host: str = "127.0.0.1", lasts: datetime.timedelta = DAY
) -> TlsFiles:
    """Files of a process of a cluster whose authority that is."""
    issued = authority.issue(name, host=host, lasts=lasts)
    issued.key.chmod(0o600)
    return TlsFiles(issued.certificate, issued.key, authority.certificate)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lasts: datetime.timedelta = DAY
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + lasts)
    )
