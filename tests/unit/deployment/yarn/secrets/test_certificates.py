"""Certificates of a cluster on YARN: each container's holds the name of its node, and is signed by the authority."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from headrace.core.settings import Home
from headrace.deployment.yarn.client_records import ClientRecord
from headrace.deployment.yarn.secrets.certificates import ClusterCertificates, tls_files
from headrace.deployment.yarn.secrets.worker_credentials import WorkerCredentials
from headrace.tls.checks import check
from headrace.yarn.container import AUTHORITY, AUTHORITY_KEY, FILE_SECRET


def certificates(folder: Path) -> ClusterCertificates:
    authority = ClientRecord.of(Home(folder / "home"), "flights").authority()
    (folder / AUTHORITY).write_text(authority.certificate)
    (folder / AUTHORITY_KEY).write_text(authority.key)
    return ClusterCertificates(folder, "flights")


def names_in(certificate: bytes) -> set[str]:
    found = x509.load_pem_x509_certificate(certificate)
    assert found.not_valid_after_utc > datetime.now(UTC)
    return set(
        found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    )


def test_the_coordinator_s_certificate_is_accepted_by_its_peers(tmp_path: Path) -> None:
    made = certificates(tmp_path)
    made.write("node7")
    check(tls_files(tmp_path))
    assert names_in(made.files.cert.read_bytes()) == {"flights.headrace", "node7"}
    assert not made.is_due("node7")
    assert made.is_due("node8"), "it does not hold that name"


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    record = ClientRecord.of(Home(tmp_path), "flights")
    made = record.authority()
    assert record.authority() == made
    assert (record.folder / AUTHORITY_KEY).stat().st_mode & 0o777 == 0o600
    record.forget_authority()
    assert record.authority() != made


def test_each_container_gets_the_newest_tokens_and_a_certificate_of_its_node(tmp_path: Path) -> None:
    credentials = WorkerCredentials({"a": b"1"}, certificates(tmp_path))
    first = credentials("node7")
    assert first.tokens == b""
    assert first.secrets["a"] == b"1"
    assert names_in(first.secrets[f"{FILE_SECRET}tls.crt"]) == {"flights.headrace", "node7"}
    assert f"{FILE_SECRET}{AUTHORITY_KEY}" not in first.secrets
    credentials.replace_tokens(b"new")
    assert credentials("node8").tokens == b"new"
    assert WorkerCredentials({"a": b"1"}, None)("node7").secrets == {"a": b"1"}
