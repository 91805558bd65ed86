"""Entries of the function table, and the choice of the overload for a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import polars as pl

from headrace.core.errors import ExpressionError
from headrace.core.types import INT_TYPES, TIMESTAMP, DataType, Decimal, ListOf, Primitive
from headrace.expr.terms.coercion import is_number, is_time
from headrace.expr.terms.term import Term, bound, combine, with_type


class Kind(StrEnum):
    """The type that a parameter accepts. An untyped NULL matches every kind except `list` and `decimal`."""

    INT32 = "int32"
    INT = "int"  # int32 or int64, as int64
    FLOAT32 = "float32"
    FLOAT = "float"  # any number, as float64
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    BOOL = "bool"
    DATE = "date"
    TIMESTAMP = "timestamp"  # or date
    LIST = "list"
    TEXT = "'text'"  # a string literal
    COUNT = "n"  # an integer literal


_HELD: Final[dict[Kind, DataType]] = {
    Kind.INT32: Primitive.INT32,
    Kind.INT: Primitive.INT64,
    Kind.FLOAT32: Primitive.FLOAT32,
    Kind.FLOAT: Primitive.FLOAT64,
    Kind.STRING: Primitive.STRING,
    Kind.BINARY: Primitive.BINARY,
    Kind.BOOL: Primitive.BOOL,
    Kind.DATE: Primitive.DATE,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TEXT: Primitive.STRING,
    Kind.COUNT: Primitive.INT64,
}

Result = DataType | Callable[[Sequence[Term]], DataType]
Build = Callable[..., pl.Expr]
Mask = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Overload:
    """One form of a function.

    build       terms (in the parameters' types) to the value
    fails       terms to a mask of failing rows, None if no row can fail
    nullable    the result may be NULL although no argument is; otherwise it is NULL exactly where an argument is
    """

    parameters: tuple[Kind, ...]
    result: Result
    build: Build
    fails: Mask | None = None
    nullable: bool = False

    def accepts(self, terms: Sequence[Term]) -> bool:
        """Whether these arguments match this form."""
        return len(terms) == len(self.parameters) and all(
            _takes(kind, term) for kind, term in zip(self.parameters, terms, strict=True)
        )

    def call(self, terms: Sequence[Term]) -> Term:
        """The call as a term. Raises ExpressionError for a wrong argument value."""
        held = [_held(kind, term) for kind, term in zip(self.parameters, terms, strict=True)]
        dtype = self.result(held) if callable(self.result) else self.result
        value = bound(held, self.build, dtype)
        fails = self._mask(held)
        return combine(held, dtype, value, nullable=True if self.nullable else None, fails=fails)

    def _mask(self, held: Sequence[Term]) -> pl.Expr | None:
        build = self.fails
        if build is None or build(*(replace(term, fails=None) for term in held)) is None:
            return None
        return bound(held, build, Primitive.BOOL)


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of the table: a name, its description, and its forms; a call uses the first form that accepts it."""

    name: str
    describes: str
    overloads: tuple[Overload, ...]

    def call(self, terms: Sequence[Term]) -> Term:
        """The call of the first form that accepts these arguments. Raises ExpressionError, which lists the forms, if
        none does."""
        for overload in self.overloads:
            if overload.accepts(terms):
                return overload.call(terms)
        given = ", ".join(term.type_name for term in terms)
        forms = " or ".join(f"{self.name}({', '.join(item.parameters)})" for item in self.overloads)
        remedy = f"it takes {forms}"
        if any(term.type == Primitive.STRING for term in terms):
            remedy += "; cast a string first"
        raise ExpressionError(f"{self.name}({given}) does not exist", remedy=remedy)


def plain(build: Callable[..., pl.Expr]) -> Build:
    """A builder over the arguments' values."""
    return lambda *terms: build(*(term.value for term in terms))


def same(terms: Sequence[Term]) -> DataType:
    """Result type: that of the first argument."""
    return terms[0].known_type()


def _takes(kind: Kind, term: Term) -> bool:
    if term.interval is not None:
        return False
    if term.type is None:
        return kind not in (Kind.LIST, Kind.DECIMAL, Kind.TEXT, Kind.COUNT)
    match kind:
        case Kind.INT:
            return term.type in INT_TYPES
        case Kind.FLOAT:
            return is_number(term.type)
        case Kind.DECIMAL:
            return isinstance(term.type, Decimal)
        case Kind.TIMESTAMP:
            return is_time(term.type)
        case Kind.LIST:
            return isinstance(term.type, ListOf)
        case Kind.TEXT:
            return isinstance(term.literal, str)
        case Kind.COUNT:
            return isinstance(term.literal, int) and term.type in INT_TYPES
        case _:
            return term.type == _HELD[kind]


def _held(kind: Kind, term: Term) -> Term:
    return with_type(term, _HELD[kind]) if kind in _HELD else term
