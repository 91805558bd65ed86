"""Certificates of a cluster on YARN, and the renewal of its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from headrace.core.retry import Backoff
from headrace.core.settings import Home
from headrace.deployment.yarn import secrets
from headrace.deployment.yarn.deployer import ClientRecord
from headrace.deployment.yarn.secrets import (
    CERTIFICATES_LOOK_SECONDS,
    ClusterCertificates,
    SecretRenewal,
    TokenSource,
    WorkerCredentials,
    tls_files,
    wait_seconds,
)
from headrace.tls.checks import check
from headrace.yarn.container import AUTHORITY, AUTHORITY_KEY, FILE_SECRET
from headrace.yarn.kerberos import KeytabLogin, ObtainedTokens
from support.processes.running import wait_until


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


@pytest.mark.parametrize(
    ("until_ms", "expected_s"),
    [(101_000, 75.0), (1_000, 0.0), (500, 0.0), (None, CERTIFICATES_LOOK_SECONDS)],
)
def test_tokens_are_used_for_three_quarters_of_their_time(until_ms: int | None, expected_s: float) -> None:
    assert wait_seconds(1_000, until_ms) == expected_s


@dataclass(frozen=True, slots=True)
class BreakingSource(TokenSource):
    """A source of tokens whose second call ends in an unexpected error, as a library's may."""

    at: list[int] = field(default_factory=list)

    def obtain(self) -> ObtainedTokens:
        self.at.append(1)
        if len(self.at) == 2:
            raise KeyError("an answer without a field")
        return ObtainedTokens(storage=b"tokens", until_ms=0, ends_ms=None)


def test_an_unexpected_error_does_not_end_the_renewal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "BACKOFF", Backoff(first_s=0.001, max_s=0.001))
    source = BreakingSource(KeytabLogin("user", tmp_path / "user.keytab"), (), tmp_path, {})
    renews = SecretRenewal(
        source,
        None,
        credentials=WorkerCredentials({}, None),
        nodes=list,
        host="here",
        folder=tmp_path,
    )
    renews.start()
    try:
        wait_until(lambda: len(source.at) >= 3, "tokens are obtained after the error")
    finally:
        renews.close()
