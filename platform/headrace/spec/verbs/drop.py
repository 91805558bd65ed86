"""`drop: [col, ..]`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.spec.columns import ColumnList
from headrace.spec.verbs.verb import Verb


class Drop(Verb):
    """Drops columns."""

    NAME = "drop"
    TAKES_UPDATES = True
    EXAMPLE = """\
without_codes:
  from: flights
  drop: [codes]
"""

    columns: ColumnList = Field(description="columns to leave out", min_length=1)

    def file_form(self) -> dict[str, Any]:
        """The columns."""
        return {self.NAME: list(self.columns)}
