"""What the first module of a container makes of YARN's credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.hdfs.login import TOKEN_FILE
from headrace.yarn.container import TOKEN_LOCATION, prepared_environment


def field(content: bytes) -> bytes:
    return bytes([len(content)]) + content


def credentials(kind: bytes) -> bytes:
    token = b"".join(field(each) for each in (b"alias", b"identifier", b"password", kind, b"service"))
    secrets = {b"headrace.file.token": b"t", b"headrace.variable.A": b"a"}
    return b"HDTS\0\1" + token + bytes([len(secrets)]) + b"".join(field(k) + field(v) for k, v in secrets.items())


@pytest.mark.parametrize("kind", [b"HDFS_DELEGATION_TOKEN", b"SWEBHDFS delegation", b"YARN_AM_RM_TOKEN"])
def test_a_container_finds_its_secrets_and_its_token_of_hdfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given").write_bytes(credentials(kind))
    made = prepared_environment({TOKEN_LOCATION: str(tmp_path / "given")})
    assert (tmp_path / "home/secrets/token").read_bytes() == b"t"
    assert made["A"] == "a"
    if kind == b"YARN_AM_RM_TOKEN":
        assert TOKEN_FILE not in made
        assert not (tmp_path / "home/secrets/tokens").exists()
    else:
        file = Path(made[TOKEN_FILE])
        assert file.read_bytes() == credentials(kind)
        assert file.stat().st_mode & 0o777 == 0o600
