"""How commands end when they fail."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.arguments import Json
from headrace.cli.errors import reporting_errors
from headrace.core.errors import (
    ExternalError,
    HeadraceError,
    InternalError,
    InvalidPipelineError,
    Location,
    Problem,
    UnreachableError,
    UserError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("no such topic", remedy="did you mean 'flights'?"), 2),
        (ExternalError("the disk is full"), 1),
        (UnreachableError("nobody there"), 3),
    ],
)
def test_an_error_is_one_message_and_an_exit_code(error: HeadraceError, code: int) -> None:
    app = typer.Typer()

    @app.command()
    @reporting_errors()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(app)
    assert result.exit_code == code
    assert result.stderr == f"error: {error}\n"
    assert result.stdout == ""


def test_with_json_an_error_is_a_document_too() -> None:
    app = typer.Typer()

    @app.command()
    @reporting_errors()
    def fail(as_json: Json = False) -> None:
        raise InvalidPipelineError([Problem("no such column", ("steps", "a"), Location("p.yaml", 3, 9), "write b")])

    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 2
    assert "p.yaml:3:9: no such column" in result.stderr
    document = json.loads(result.stdout)
    assert (document["error"], document["exit_code"]) == ("p.yaml:3:9: no such column\n  write b", 2)
    place = {"file": "p.yaml", "line": 3, "column": 9, "path": "steps.a"}
    assert document["problems"] == [place | {"message": "no such column", "remedy": "write b"}]
    assert CliRunner().invoke(app, []).stdout == ""


def test_a_broken_invariant_is_not_dressed_up() -> None:
    with pytest.raises(InternalError), reporting_errors():
        raise InternalError("broken")
