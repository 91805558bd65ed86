"""Keys of an application's submissions."""

from __future__ import annotations

import os

import pytest

from headrace.client import submission
from headrace.client.submission import APPLICATION_VARIABLE, application_key


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has submitted nothing yet."""
    monkeypatch.setattr(submission, "_submissions", type(submission._submissions)())


def test_submissions_are_numbered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(APPLICATION_VARIABLE, str(os.getppid()))
    assert [application_key(name) for name in ("a", "b", "a")] == ["a/1", "b/1", "a/2"]


def test_only_the_program_of_an_attendant_has_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(APPLICATION_VARIABLE, raising=False)
    assert application_key("a") is None
    # that of its parent: this is a child of the program
    monkeypatch.setenv(APPLICATION_VARIABLE, "1")
    assert application_key("a") is None
