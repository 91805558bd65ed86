"""Name resolution of an expression: the columns of a schema, and whether rows have an event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.types import Field, Schema, Struct
from headrace.expr.sql.other_dialects import FOREIGN_NAMES
from headrace.expr.terms.term import Term, combine


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may read. `excluded`: columns of the schema that it may not read here."""

    schema: Schema
    has_time: bool
    excluded: frozenset[str] = frozenset()

    def column(self, name: str) -> Term:
        """The column with this name; case-sensitive."""
        if name.startswith(HIDDEN_PREFIX):
            raise ExpressionError(f"{name!r} is hidden: names that begin with `__` belong to the engine")
        found = self.schema.get(name)
        if found is None:
            listed = f"columns: {', '.join(self.schema.names)}"
            hint = did_you_mean(name, self.schema.names) or FOREIGN_NAMES.get(name.lower(), listed)
            raise ExpressionError(f"there is no column {name!r}", remedy=hint)
        if name in self.excluded:
            raise ExpressionError(
                f"column {name!r} is neither a key nor inside an aggregate",
                remedy=f"add it to key_by, or aggregate it: first({name}), max({name})",
            )
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise ExpressionError(f"column {name!r} reads as a pattern", remedy="rename it first: rename: {old: new}")
        return column_term(found)

    def path(self, names: Sequence[str]) -> Term:
        """`a.b.c`: field c of field b of column a."""
        term = self.column(names[0])
        for name in names[1:]:
            term = field_of(term, name)
        return term


def column_term(field: Field) -> Term:
    """A column as a term."""
    return Term(field.type, pl.col(field.name), nullable=field.nullable, columns=frozenset((field.name,)))


def field_of(term: Term, name: str) -> Term:
    """A field of a struct; NULL where the struct is NULL."""
    if not isinstance(term.type, Struct):
        raise ExpressionError(f"`.{name}` takes a field of a struct, not of {term.type_name}")
    found = next((item for item in term.type.fields if item.name == name), None)
    if found is None:
        names = [item.name for item in term.type.fields]
        hint = did_you_mean(name, names) or f"fields: {', '.join(names)}"
        raise ExpressionError(f"there is no field {name!r}", remedy=hint)
    value = term.value.struct.field(name)
    return combine([term], found.type, value, nullable=term.nullable or found.nullable)
