"""`with_columns: {name: <expression>}`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.spec.expressions import NamedExpressions
from headrace.spec.verbs.verb import Verb


class WithColumns(Verb):
    """Adds columns, or replaces those with the same name."""

    NAME = "with_columns"
    TAKES_UPDATES = True
    EXPRESSIONS = ()
    EXAMPLE = """\
in_hours:
  from: departed
  with_columns:
    delay_hours: dep_delay / 60
"""

    columns: NamedExpressions = Field(description="columns to add or replace: {name: expression}")

    def file_form(self) -> dict[str, Any]:
        """The columns."""
        return {self.NAME: dict(self.columns)}
