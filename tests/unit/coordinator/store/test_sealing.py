"""What is sealed: only its key opens it, and two seals of one text differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.coordinator.store.sealing import Sealer
from headrace.core.errors import ExternalError


def test_the_same_key_file_opens_what_it_sealed(tmp_path: Path) -> None:
    sealed = Sealer(tmp_path / "key").seal(b"secret")
    assert "secret" not in sealed
    assert sealed != Sealer(tmp_path / "key").seal(b"secret")
    assert Sealer(tmp_path / "key").unseal(sealed) == b"secret"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_another_key_does_not_and_says_which_file_it_is(tmp_path: Path) -> None:
    sealed = Sealer(tmp_path / "key").seal(b"secret")
    with pytest.raises(ExternalError, match=r"another key than the one in .*other") as refused:
        Sealer(tmp_path / "other").unseal(sealed)
    assert refused.value.remedy is not None
    with pytest.raises(ExternalError):
        Sealer(tmp_path / "key").unseal(sealed[:-9] + "AAAAAAAA=")


def test_a_key_of_an_administrator_keeps_its_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Owned by root, and readable by the group of the coordinator's user, which could not change its mode."""
    (tmp_path / "key").write_text("of the deployment\n")
    (tmp_path / "key").chmod(0o440)
    assert Sealer(tmp_path / "key").unseal(Sealer(tmp_path / "key").seal(b"secret")) == b"secret"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o440
    assert caplog.text == ""
