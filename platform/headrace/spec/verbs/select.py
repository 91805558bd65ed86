"""`select: [col, ..]` and `select: {name: <expression>}`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from headrace.spec.columns import COLUMNS_SCHEMA, listed_name
from headrace.spec.expressions import EXPRESSIONS_SCHEMA, Pairs, named_expressions, quoted
from headrace.spec.findings import Finding, FindingsError, collecting, wrong
from headrace.spec.verbs.verb import Verb
from headrace.spec.wording import kind_of


def _selected(data: object) -> object:
    if isinstance(data, str) and data:
        raise wrong(f"takes a list of columns, or a mapping to expressions, not {kind_of(data)}", f"write [{data}]")
    if not isinstance(data, list):
        return named_expressions(data)
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            names.append(listed_name(item, names))
    if findings or not names:
        raise FindingsError(findings or [Finding("is empty", "list at least one column")])
    return tuple((name, quoted(name)) for name in names)


_Selected = Annotated[
    Pairs, BeforeValidator(_selected), WithJsonSchema({"anyOf": [COLUMNS_SCHEMA, EXPRESSIONS_SCHEMA]})
]


class Select(Verb):
    """Returns exactly these columns, in this order."""

    NAME = "select"
    TAKES_UPDATES = True
    EXPRESSIONS = ()
    EXAMPLE = """\
delays:
  from: departed
  select:
    origin: origin
    late: dep_delay > 15
    day: date_trunc('day', scheduled)
"""

    columns: _Selected = Field(description="the columns of the result: [col, ..] or {name: expression}")

    @property
    def listed(self) -> bool:
        """Whether it only names columns of its input."""
        return all(text == quoted(name) for name, text in self.columns)

    def file_form(self) -> dict[str, Any]:
        """The columns: a list if they are only named."""
        return {self.NAME: [name for name, _ in self.columns] if self.listed else dict(self.columns)}
