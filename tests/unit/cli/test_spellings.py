"""Options have one spelling in all commands; earlier ones are accepted, and shown nowhere."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import app

SPELLINGS = [
    (("run",), "--drain", "--final"),
    (("replay",), "--drain", "--final"),
    (("submit",), "--archives", "--archive"),
    (("upgrade",), "--archives", "--archive"),
    (("archive",), "--property", "--properties"),
]


@pytest.mark.parametrize(("verb", "spelling", "earlier"), SPELLINGS, ids=[" ".join(each[0]) for each in SPELLINGS])
def test_an_earlier_spelling_is_hidden(verb: tuple[str, ...], spelling: str, earlier: str) -> None:
    command = typer.main.get_command(app).commands[verb[0]]  # type: ignore[attr-defined]  # it is a group
    options = {name: each for each in command.params for name in each.opts}
    assert options[earlier].hidden
    assert not options[spelling].hidden
    assert earlier not in CliRunner().invoke(app, [*verb, "--help"]).stdout.split()


def test_an_earlier_spelling_means_the_same() -> None:
    for spelling in ("--final", "--drain"):
        result = CliRunner().invoke(app, ["run", "p.yaml", spelling])
        assert result.exit_code == 2
        assert "--drain says how to end with a savepoint" in result.stderr
