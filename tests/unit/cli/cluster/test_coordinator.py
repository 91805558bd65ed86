"""What `headrace coordinator` hands to the coordinator's program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app


class StartedError(Exception):
    """Stands in for the program that takes the command's place."""


@pytest.mark.parametrize(
    ("named", "given", "used"), [("env", None, "env"), ("env", "flag", "flag"), (None, None, None)]
)
def test_the_token_file_of_the_environment_is_used(
    named: str | None, given: str | None, used: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []

    def execv(_program: str, command: list[str]) -> None:
        started.append(command)
        raise StartedError

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_TOKEN_FILE", raising=False)
    if named is not None:
        monkeypatch.setenv("HEADRACE_TOKEN_FILE", named)
    ended = CliRunner().invoke(app, ["coordinator", *(() if given is None else ("--token-file", given))])
    assert isinstance(ended.exception, StartedError), ended.output
    (command,) = started
    assert (command[command.index("--token-file") + 1] if "--token-file" in command else None) == used
