"""`explode: <list column>`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.spec.columns import ColumnName
from headrace.spec.verbs.verb import Verb


class Explode(Verb):
    """Emits one row for each element of a list column."""

    NAME = "explode"
    EXAMPLE = """\
one_code_each:
  from: flights
  explode: codes
"""

    column: ColumnName = Field(description="a list column; each element becomes a row")

    def file_form(self) -> dict[str, Any]:
        """The column."""
        return {self.NAME: self.column}
