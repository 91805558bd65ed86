"""Tokens in files: made once, whole and private from the first moment; repaired where others could read them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.client.token_files import ensure_token, given_token, read_token, required_token
from headrace.core.errors import UserError


@pytest.fixture(autouse=True)
def _everybody_may_read() -> Iterator[None]:
    """The most that a umask leaves open."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_once_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "home" / "cluster" / "token"
    token = ensure_token(file)
    assert len(token) >= 40
    assert ensure_token(file) == token
    assert ensure_token(file.with_name("another")) != token
    assert [mode(each) for each in (file, file.parent, file.parent.parent)] == [0o600, 0o700, 0o700]
    assert sorted(each.name for each in file.parent.iterdir()) == ["another", "token"]


def test_processes_that_make_a_token_at_the_same_time_get_the_same_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        for number in range(10):
            file = tmp_path / str(number) / "token"
            assert len(set(pool.map(ensure_token, [file] * 16))) == 1


def test_a_token_that_others_can_read_is_repaired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert mode(file) == 0o666
    with caplog.at_level(logging.WARNING):
        assert ensure_token(file) == "secret"
    assert mode(file) == 0o600
    assert "other users could read the token" in caplog.text
    assert "secret" not in caplog.text


def test_the_mode_of_a_file_that_was_named_is_its_owners_business(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("secret")
    file.chmod(0o440)
    assert (required_token(file), mode(file)) == ("secret", 0o440)


@pytest.mark.parametrize("text", ["", "\n", "two\nlines", "s\u00e9cret", "tab\tbed"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    for read in (read_token, required_token, ensure_token):
        with pytest.raises(UserError, match=r"holds no token(.|\n)*random text"):
            read(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert read_token(tmp_path / "none") is None
    with pytest.raises(UserError, match="no such file"):
        required_token(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_token(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="it is no text"):
        read_token(tmp_path / "bytes")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be"):
        ensure_token(tmp_path / "file" / "token")


def test_a_file_that_is_named_comes_before_all_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("flag", "variable"):
        (tmp_path / name).write_text(f"of {name}")
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    monkeypatch.delenv("HEADRACE_TOKEN_FILE", raising=False)
    assert given_token() is None
    monkeypatch.setenv("HEADRACE_TOKEN_FILE", str(tmp_path / "variable"))
    assert given_token() == "of variable"
    monkeypatch.setenv("HEADRACE_TOKEN", "text")
    assert given_token() == "text"
    assert given_token(token="flag") == "flag"
    assert given_token(tmp_path / "flag", "text") == "of flag"
    monkeypatch.setenv("HEADRACE_TOKEN", "s\u00e9cret")
    with pytest.raises(UserError, match="HEADRACE_TOKEN holds no token"):
        given_token()
