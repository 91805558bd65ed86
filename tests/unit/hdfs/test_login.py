"""How a process authenticates to HDFS."""

from __future__ import annotations

import getpass
import pwd
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.hdfs.login import TOKEN_FILE, TokenLogin, UserLogin, login_from_environment


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
