"""Authentication to HDFS, and delegation tokens in files."""

from __future__ import annotations

import base64
import getpass
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.hdfs.login import TOKEN_FILE, TokenFileError, TokenLogin, UserLogin, login_from_environment, token_text


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN_FILE, "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_token_counts_more_than_a_name_and_a_name_more_than_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert login_from_environment() == UserLogin(getpass.getuser())
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    assert login_from_environment() == UserLogin("alice")
    assert login_from_environment().parameters() == {"user.name": "alice"}
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    assert login_from_environment() == TokenLogin(tmp_path / "token")


def test_a_process_whose_user_has_no_name_is_told_which_variable_gives_it_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="has no name") as caught:
        login_from_environment()
    assert "HADOOP_USER_NAME" in str(caught.value.remedy)


def test_the_file_of_a_token_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    login = TokenLogin(file)
    with pytest.raises(UserError, match="cannot be read"):
        login.parameters()
    file.write_text("\n")
    with pytest.raises(UserError, match="it is empty") as caught:
        login.parameters()
    assert "hdfs fetchdt" in str(caught.value.remedy)
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert login.parameters() == {"delegation": token}


HDFS = b"HDFS_DELEGATION_TOKEN"


def number(value: int) -> bytes:
    """As `WritableUtils.writeVLong`."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([(-112 - size) % 256]) + value.to_bytes(size)


def field(content: bytes) -> bytes:
    return number(len(content)) + content


def token(kind: bytes, identifier: bytes = b"identifier", password: bytes = b"password") -> bytes:
    return field(identifier) + field(password) + field(kind) + field(b"127.0.0.1:8020")


def stored(*tokens: bytes) -> bytes:
    named = b"".join(field(b"alias %d" % place) + each for place, each in enumerate(tokens))
    return b"HDTS\0" + number(len(tokens)) + named + number(0)


def test_the_text_of_a_token() -> None:
    assert token_text(b" KQAQYWxp-_\n") == "KQAQYWxp-_"
    for content in (b"", b"\n", b"\xff"):
        with pytest.raises(TokenFileError):
            token_text(content)


@given(st.binary(max_size=300), st.binary(max_size=70_000))
def test_a_stored_token_is_found_among_others(identifier: bytes, password: bytes) -> None:
    own = token(HDFS, identifier, password)
    text = token_text(stored(token(b"YARN_AM_RM_TOKEN"), own, token(b"other")))
    assert "=" not in text
    assert base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == own


@pytest.mark.parametrize("tokens", [[], [token(b"other")], [token(HDFS), token(HDFS, b"another one")]])
def test_not_exactly_one(tokens: list[bytes]) -> None:
    with pytest.raises(TokenFileError, match=r"has \d tokens of HDFS, and must have one"):
        token_text(stored(*tokens))


def test_other_versions_are_named() -> None:
    with pytest.raises(TokenFileError, match="version 1: write it in the format `java`"):
        token_text(b"HDTS\1")


@given(st.binary(max_size=60), st.integers(0, 200))
def test_a_damaged_file_is_refused(tail: bytes, end: int) -> None:
    for content in (b"HDTS\0" + tail, stored(token(HDFS))[:end]):
        try:
            token_text(content)
        except TokenFileError as error:
            assert "password" not in str(error)
