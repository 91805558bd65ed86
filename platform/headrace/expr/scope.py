"""Name resolution of an expression: columns by relation, and whether rows have an event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from headrace.core.errors import ExpressionError, did_you_mean
from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.types import Field, Schema, Struct
from headrace.expr.sql.other_dialects import FOREIGN_NAMES
from headrace.expr.terms.term import Term, combine


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns that an expression reads together, under a name: `left.x`.

    names    names of the relation, each of which may stand before the dot; none: only `x` reads the column
    prefix   the rows hold column `x` of the relation under the name `prefix + x`
    """

    schema: Schema
    names: tuple[str, ...] = ()
    prefix: str = ""

    def qualified(self, column: str) -> str:
        """The text that reads a column of this relation and of no other."""
        return f"{self.names[0]}.{column}" if self.names else column


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression may read, by relation. All names are case-sensitive.

    `x` reads the column of the only relation that has one of this name. `a.x` reads column x of relation a if there is
    one, else field x of the struct in column a, as DuckDB does.

    has_time   the rows have an event time (`__ts`)
    excluded   columns of the rows that the expression may not read here
    """

    relations: tuple[Relation, ...]
    has_time: bool
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = [name for relation in self.relations for name in relation.names]
        assert len(set(names)) == len(names), "names of relations are unique"

    @classmethod
    def over(cls, columns: Schema | Sequence[Relation], *, has_time: bool) -> Scope:
        """The scope of these relations; a schema is one relation without a name."""
        relations = (Relation(columns),) if isinstance(columns, Schema) else tuple(columns)
        return cls(relations, has_time)

    @property
    def schema(self) -> Schema:
        """The columns of the rows, under the names that the rows have for them."""
        if len(self.relations) == 1 and not self.relations[0].prefix:
            return self.relations[0].schema
        return Schema(tuple(_stored(relation, item) for relation in self.relations for item in relation.schema))

    def has(self, column: str) -> bool:
        """Whether some relation has a column of this name."""
        return any(column in relation.schema for relation in self.relations)

    def path(self, names: Sequence[str]) -> Term:
        """`a.b.c`: column b of relation a, then its field c; else column a, then its fields b and c."""
        relation = self._relation(names) if len(names) > 1 else None
        if relation is None:
            term, fields = self._unqualified(names[0], alone=len(names) == 1), names[1:]
        else:
            term, fields = self._column(relation, names[1], ".".join(names[:2])), names[2:]
        for name in fields:
            term = field_of(term, name)
        return term

    def _relation(self, names: Sequence[str]) -> Relation | None:
        """The relation that the first name names; None if it names a column."""
        relation = next((item for item in self.relations if names[0] in item.names), None)
        if relation is None or names[1] in relation.schema or not self._has_field(names[0], names[1]):
            return relation
        return None

    def _has_field(self, column: str, name: str) -> bool:
        """Whether some relation has a struct column with this field."""
        types = [item.type for relation in self.relations for item in relation.schema if item.name == column]
        return any(isinstance(dtype, Struct) and any(item.name == name for item in dtype.fields) for dtype in types)

    def _unqualified(self, name: str, *, alone: bool) -> Term:
        _check_visible(name)
        owners = [relation for relation in self.relations if name in relation.schema]
        if len(owners) > 1:
            texts = [relation.qualified(name) for relation in owners]
            raise ExpressionError(f"column {name!r} is ambiguous", remedy=f"write {' or '.join(texts)}")
        if not owners:
            raise self._unknown(name, alone=alone)
        return self._column(owners[0], name, name)

    def _column(self, relation: Relation, name: str, text: str) -> Term:
        """A column of a relation. `text`: the expression's own text for it."""
        _check_visible(name)
        field = relation.schema.get(name)
        if field is None:
            names = relation.schema.names
            remedy = did_you_mean(name, names) or f"columns of {relation.names[0]}: {', '.join(names)}"
            raise ExpressionError(f"there is no column {text!r}", remedy=remedy)
        stored = _stored(relation, field)
        if stored.name in self.excluded:
            raise ExpressionError(
                f"column {text!r} is neither a key nor inside an aggregate",
                remedy=f"add it to key_by, or aggregate it: first({text}), max({text})",
            )
        if stored.name == "*" or (stored.name.startswith("^") and stored.name.endswith("$")):
            raise ExpressionError(f"column {text!r} reads as a pattern", remedy="rename it first: rename: {old: new}")
        return column_term(stored)

    def _unknown(self, name: str, *, alone: bool) -> ExpressionError:
        """The error for a name that no column has. `alone`: no dot follows, so it cannot mean a relation."""
        columns = [item.name for relation in self.relations for item in relation.schema]
        relations = [item for relation in self.relations for item in relation.names]
        if alone and name in relations:
            return ExpressionError(f"{name!r} is not a column", remedy=f"name a column of it: {name}.x")
        if alone or not relations:
            texts = [relation.qualified(item.name) for relation in self.relations for item in relation.schema]
            listed = f"columns: {', '.join(texts)}"
            hint = did_you_mean(name, columns) or FOREIGN_NAMES.get(name.lower(), listed)
            return ExpressionError(f"there is no column {name!r}", remedy=hint)
        hint = did_you_mean(name, [*relations, *columns]) or f"relations: {', '.join(relations)}"
        return ExpressionError(f"there is no relation {name!r}", remedy=hint)


def _check_visible(name: str) -> None:
    if name.startswith(HIDDEN_PREFIX):
        raise ExpressionError(f"{name!r} is hidden: names that begin with `__` belong to the engine")


def _stored(relation: Relation, field: Field) -> Field:
    """The field as the rows hold it."""
    return replace(field, name=relation.prefix + field.name) if relation.prefix else field


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
