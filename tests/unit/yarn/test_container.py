"""The first module of a container: it reads YARN's credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError
from headrace.hdfs.login import TOKEN_FILE
from headrace.yarn.container import TOKEN_LOCATION, prepared_environment, secrets_of


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


def vint(value: int) -> bytes:
    """`WritableUtils.writeVLong`."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    base = -112
    if value < 0:
        value, base = ~value, -120
    count = (value.bit_length() + 7) // 8
    return (base - count).to_bytes(1, "big", signed=True) + value.to_bytes(count, "big")


def blob(data: bytes) -> bytes:
    return vint(len(data)) + data


def storage(tokens: list[list[bytes]], secrets: dict[str, bytes]) -> bytes:
    parts = [b"HDTS\0", vint(len(tokens)), *(blob(each) for token in tokens for each in token)]
    return b"".join([*parts, vint(len(secrets)), *(blob(k.encode()) + blob(v) for k, v in secrets.items())])


@given(
    st.lists(st.lists(st.binary(max_size=300), min_size=5, max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=40), st.binary(max_size=70_000), max_size=4),
)
def test_the_secrets_come_after_the_tokens(tokens: list[list[bytes]], secrets: dict[str, bytes]) -> None:
    assert secrets_of(storage(tokens, secrets)) == secrets


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_file_that_ends_too_early_is_refused(cut: int) -> None:
    with pytest.raises(ExternalError):
        secrets_of(storage([[b"a"] * 5], {"name": b"x" * 30})[:-cut])


def test_another_format_is_refused() -> None:
    with pytest.raises(ExternalError, match="unknown format"):
        secrets_of(b"HDTS\1")
