"""An authority of a cluster, and the certificate that it issues for all processes of that cluster.

All processes share one certificate, as the cluster's identity, because the address of a process is not known before it
runs. PEM texts; keys are of the curve P-256, without a password.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.x509 import CertificateBuilder, GeneralName, KeyUsage, Name

AUTHORITY_LASTS = timedelta(days=3650)
CERTIFICATE_LASTS = timedelta(days=90)
RENEWED_BEFORE_END = timedelta(days=30)
_CLOCKS_DIFFER = timedelta(hours=1)
"""How far the clock of another host may be behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key."""

    certificate: str
    key: str = field(repr=False)


def new_authority(name: str, now: datetime) -> KeyPair:
    """An authority that signs itself. now: in UTC."""
    from cryptography import x509

    key = _new_key()
    subject = _named(name)
    built = _begun(subject, subject, key.public_key(), now, AUTHORITY_LASTS)
    built = (
        built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(built, key, key)


def issued(authority: KeyPair, names: Sequence[str], now: datetime) -> KeyPair:
    """A certificate for servers and clients. names: DNS names and addresses that it is good for, the first of which
    names its subject."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority.certificate.encode()).subject
    signing: EllipticCurvePrivateKey = load_pem_private_key(authority.key.encode(), None)  # type: ignore[assignment]
    key = _new_key()
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    built = (
        _begun(_named(names[0]), issuer, key.public_key(), now, CERTIFICATE_LASTS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(each) for each in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    return _signed(built, signing, key)


def is_due(certificate: str, names: Sequence[str], now: datetime) -> bool:
    """Whether a certificate is to be replaced: its time ends soon, or it is not good for all names."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate.encode())
    if found.not_valid_after_utc - now < RENEWED_BEFORE_END:
        return True
    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return not {_alternative(each) for each in names} <= set(held)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _begun(
    subject: Name, issuer: Name, key: EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + lasts)
    )


def _signed(built: CertificateBuilder, signing: EllipticCurvePrivateKey, key: EllipticCurvePrivateKey) -> KeyPair:
    from cryptography.hazmat.primitives import hashes, serialization

    certificate = built.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.decode(), private.decode())
