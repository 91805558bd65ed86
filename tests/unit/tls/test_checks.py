"""TLS files of a process: what is refused before it starts, and which remedy it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.tls.checks import check
from headrace.tls.files import TlsFiles, tls_files
from support.certificates import DAY, Authority, tls_files_of


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority) -> TlsFiles:
    return tls_files_of(authority, "slot")


def test_files_that_fit_are_accepted(files: TlsFiles) -> None:
    check(files)


@pytest.mark.parametrize("part", ["cert", "key", "ca"])
def test_a_file_that_is_missing_is_named(files: TlsFiles, part: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.pem cannot be read: No such file"):
        check(replace(files, **{part: tmp_path / "gone.pem"}))


@pytest.mark.parametrize("part", ["cert", "key", "ca"])
def test_a_file_that_holds_something_else_is_named(files: TlsFiles, part: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing of the kind")
    wrong.chmod(0o600)
    with pytest.raises(UserError, match=r"wrong\.pem"):
        check(replace(files, **{part: wrong}))


def test_the_key_of_another_certificate_is_refused(files: TlsFiles, authority: Authority) -> None:
    with pytest.raises(UserError, match="is not that of the certificate"):
        check(replace(files, key=tls_files_of(authority, "other").key))


def test_a_key_that_all_users_can_read_is_refused(files: TlsFiles) -> None:
    files.key.chmod(0o644)
    with pytest.raises(UserError, match="every user of this host can read") as caught:
        check(files)
    assert "chmod o=" in str(caught.value)


def test_an_encrypted_key_is_refused_and_nobody_is_asked(authority: Authority) -> None:
    issued = authority.issue("locked", password="secret")
    issued.key.chmod(0o600)
    with pytest.raises(UserError, match="is encrypted"):
        check(TlsFiles(issued.certificate, issued.key, authority.certificate))


def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    with pytest.raises(UserError, match="certificate has expired"):
        check(tls_files_of(authority, "old", lasts=-DAY / 2))


def test_a_certificate_of_another_authority_is_refused(files: TlsFiles, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not valid") as caught:
        check(replace(files, ca=Authority(tmp_path, "other").certificate))
    assert "signed by" in str(caught.value)


def test_some_of_the_files_are_not_enough(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="authority") as caught:
        tls_files(tmp_path / "cert", tmp_path / "key", None)
    assert "--tls-ca or HEADRACE_TLS_CA" in str(caught.value)
    assert tls_files(None, None, tmp_path / "ca") is None
