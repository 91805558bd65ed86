"""Folders of this host, for users with and without a home."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.core.settings import Home, cache_folder


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of this process is a number without an entry in the table of users, as in many containers."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "HEADRACE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home_is_told_which_variable_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="has no home") as caught:
        Home.from_environment()
    assert "HEADRACE_HOME" in str(caught.value.remedy)
    with pytest.raises(UserError, match="has no home") as caught:
        cache_folder()
    assert "XDG_CACHE_HOME" in str(caught.value.remedy)
    monkeypatch.setenv("HEADRACE_HOME", "/var/lib/headrace")
    assert Home.from_environment() == Home(Path("/var/lib/headrace"))
