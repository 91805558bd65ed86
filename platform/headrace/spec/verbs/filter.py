"""`filter: <predicate>`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from headrace.spec.expressions import Expression
from headrace.spec.verbs.verb import Verb


class Filter(Verb):
    """Keeps the rows for which a predicate is true."""

    NAME = "filter"
    TAKES_UPDATES = True
    EXPRESSIONS = ()
    EXAMPLE = """\
late:
  from: flights
  filter: dep_delay > 15 and carrier in ('UA', 'DL')
"""

    predicate: Expression = Field(description="an SQL predicate; rows for which it is true are kept")

    def file_form(self) -> dict[str, Any]:
        """The predicate."""
        return {self.NAME: self.predicate}
