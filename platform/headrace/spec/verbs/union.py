"""`union: [a, b]`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from headrace.spec.findings import Finding, FindingsError, collecting, wrong
from headrace.spec.verbs.verb import Verb
from headrace.spec.wording import kind_of


def _inputs(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if not isinstance(data, list):
        raise wrong(f"takes a list of nodes, not {kind_of(data)}", "write [a, b]")
    if len(data) < 2:
        raise wrong(f"unites at least two nodes, not {len(data)}", "write [a, b]")
    findings: list[Finding] = []
    names: list[str] = []
    for index, item in enumerate(data):
        with collecting(findings, str(index)):
            if not isinstance(item, str):
                raise wrong(f"takes the name of a node, not {kind_of(item)}")
            if item in names:
                raise wrong(f"{item!r} is listed twice", "list each input once")
            names.append(item)
    if findings:
        raise FindingsError(findings)
    return tuple(names)


_Nodes = Annotated[
    tuple[str, ...],
    BeforeValidator(_inputs),
    WithJsonSchema({"type": "array", "items": {"title": "node", "type": "string"}}),
]


class Union(Verb):
    """Merges the rows of several nodes; columns are matched by name, and their types are equal."""

    NAME = "union"
    NAMES_INPUTS = True
    EXAMPLE = """\
early:
  from: departed
  filter: dep_delay < 0
very_late:
  from: departed
  filter: dep_delay > 60
unusual:
  union: [early, very_late]
"""

    inputs: _Nodes = Field(description="nodes whose rows are united, by column name")

    def file_form(self) -> dict[str, Any]:
        """The inputs."""
        return {self.NAME: list(self.inputs)}

    @property
    def named_inputs(self) -> tuple[str, ...]:
        """The inputs."""
        return self.inputs
