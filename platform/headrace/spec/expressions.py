"""Fields that hold SQL expressions as text, alone or by name. Only their shape is checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from headrace.spec.columns import check_column_name
from headrace.spec.findings import Finding, FindingsError, collecting, wrong
from headrace.spec.wording import kind_of

Pairs = tuple[tuple[str, str], ...]
"""(name, expression), or (old name, new name), in the file's order."""
EXPRESSIONS_SCHEMA = {"type": "object", "additionalProperties": {"title": "expression", "type": ["string", "number"]}}
"""JSON schema of `{name: <expression>}`."""


def _written(text: object) -> object:
    if isinstance(text, str) and not text.strip():
        raise wrong("an expression is empty", "write an SQL expression")
    if text is None:
        raise wrong("there is no expression", "write an SQL expression")
    if not isinstance(text, str):
        remedy = "write one expression; `and` joins conditions" if isinstance(text, list) else "quote this expression"
        raise wrong(f"takes an SQL expression as text, not {kind_of(text)}", remedy if text else None)
    return text


Expression = Annotated[str, BeforeValidator(_written), Field(json_schema_extra={"format": "expression"})]
"""An SQL expression, as text."""


def quoted(column: str) -> str:
    """An SQL expression that reads the column."""
    return '"' + column.replace('"', '""') + '"'


def named_expressions(data: object) -> object:
    """Parses `{name: <expression>}`; pairs are returned unchanged."""
    if isinstance(data, tuple):
        return data
    if not isinstance(data, Mapping):
        raise wrong(f"takes a mapping of column name to expression, not {kind_of(data)}", "write `name: expression`")
    if not data:
        raise wrong("is empty", "write `name: expression`, one a line")
    findings: list[Finding] = []
    pairs: list[tuple[str, object]] = []
    for name, text in data.items():
        with collecting(findings, str(name)):
            pairs.append((check_column_name(str(name)), _written(text)))
    if findings:
        raise FindingsError(findings)
    return tuple(pairs)


NamedExpressions = Annotated[
    Pairs, BeforeValidator(named_expressions), WithJsonSchema({**EXPRESSIONS_SCHEMA, "minProperties": 1})
]
"""`{name: <expression>}`, at least one."""
