"""How commands end when they fail."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.errors import reporting_errors
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UnreachableError, UserError


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


def test_a_broken_invariant_is_not_dressed_up() -> None:
    with pytest.raises(InternalError), reporting_errors():
        raise InternalError("broken")
