"""`rename: {old: new}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from headrace.spec.columns import listed_name
from headrace.spec.expressions import Pairs
from headrace.spec.findings import Finding, FindingsError, collecting, wrong
from headrace.spec.verbs.verb import Verb
from headrace.spec.wording import kind_of


def _renames(data: object) -> object:
    if isinstance(data, tuple):
        return data
    if not isinstance(data, Mapping) or not data:
        raise wrong(f"takes a mapping of old name to new name, not {kind_of(data or None)}", "write {old: new}")
    findings: list[Finding] = []
    targets: list[str] = []
    for old, new in data.items():
        with collecting(findings, str(old)):
            targets.append(listed_name(new, targets))
    if findings:
        raise FindingsError(findings)
    return tuple(zip(map(str, data), targets, strict=True))


_NEW_NAMES = {"title": "new name", "type": ["string", "number"]}
_Renamed = Annotated[
    Pairs,
    BeforeValidator(_renames),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _NEW_NAMES}),
]


class Rename(Verb):
    """Renames columns; the others stay as they are."""

    NAME = "rename"
    TAKES_UPDATES = True
    EXAMPLE = """\
renamed:
  from: flights
  rename: {origin: airport, dep_delay: delay}
"""

    columns: _Renamed = Field(description="old name: new name")

    def file_form(self) -> dict[str, Any]:
        """Old and new names."""
        return {self.NAME: dict(self.columns)}
