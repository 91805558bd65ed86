"""`headrace` inside of this process: what its verbs print and how they end, without the start of a process."""

from __future__ import annotations

from functools import cache
from unittest import mock

import typer.main
from typer.testing import CliRunner, Result

from headrace.cli.app import app

# Typer makes all commands anew at each call, which takes longer than most of them
_command = cache(typer.main.get_command)


def invoked(*arguments: str) -> Result:
    """`headrace <arguments>`, run to its end."""
    with mock.patch("typer.testing._get_command", _command):
        return CliRunner().invoke(app, arguments)


def headrace(*arguments: str, code: int = 0) -> Result:
    """The same, which must end with that exit code."""
    result = invoked(*arguments)
    assert result.exit_code == code, result.output
    return result
