"""Expressions as Python objects: each is canonical SQL text with its binding strength.

It owns operators, precedence, parentheses and the quotes of names. It knows no schema: names and types are checked when
the pipeline is planned, exactly as those of expressions that were written as text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from headrace.api.literal import Value, literal_sql
from headrace.core.errors import UserError


class Binding(IntEnum):
    """The binding strength of a piece of SQL. A weaker piece than its place needs gets parentheses."""

    TEXT = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    CONCAT = 5
    SUM = 6
    PRODUCT = 7
    SIGN = 8
    ATOM = 9


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An SQL expression. Python's operators combine expressions; a plain value beside an Expr is a literal.

    `==` compares in SQL, so two Exprs are compared by their `sql`. An Expr has no truth value: use `&`, `|` and `~`.
    """

    sql: str
    binding: Binding = Binding.ATOM

    def __str__(self) -> str:
        return self.sql

    def __bool__(self) -> NoReturn:
        raise UserError(
            f"the expression {self.sql!r} is neither true nor false here",
            remedy="combine with &, | and ~ (not and, or, not), and put comparisons in parentheses",
        )

    __hash__ = None  # type: ignore[assignment]

    # ---- comparison ----------------------------------------------------------------------------------------------

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return self._equal("=", other, "is_null()")

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return self._equal("<>", other, "is_not_null()")

    def __lt__(self, other: Operand) -> Expr:
        return self._compared("<", other)

    def __le__(self, other: Operand) -> Expr:
        return self._compared("<=", other)

    def __gt__(self, other: Operand) -> Expr:
        return self._compared(">", other)

    def __ge__(self, other: Operand) -> Expr:
        return self._compared(">=", other)

    def is_null(self) -> Expr:
        """`x is null`."""
        return self._test("is null")

    def is_not_null(self) -> Expr:
        """`x is not null`."""
        return self._test("is not null")

    def is_true(self) -> Expr:
        """`x is true`: false where x is NULL."""
        return self._test("is true")

    def is_distinct_from(self, other: Operand) -> Expr:
        """`x is distinct from y`: unequal, where NULL equals NULL; never NULL itself."""
        return self._compared("is distinct from", other)

    def is_not_distinct_from(self, other: Operand) -> Expr:
        """`x is not distinct from y`: equal, where NULL equals NULL; never NULL itself."""
        return self._compared("is not distinct from", other)

    def is_in(self, values: Iterable[Operand]) -> Expr:
        """`x in (a, b)`. Raises UserError for no values."""
        if isinstance(values, str):
            raise UserError(f"is_in takes a list of values, not {values!r}", remedy=f"write [{values!r}]")
        items = [operand(value).sql for value in values]
        if not items:
            raise UserError(f"is_in of {self.sql} has no values", remedy="give at least one")
        return self._test(f"in ({', '.join(items)})")

    def between(self, low: Operand, high: Operand) -> Expr:
        """`x between low and high`, both ends included."""
        return self._test(f"between {_at(low, Binding.CONCAT)} and {_at(high, Binding.CONCAT)}")

    def like(self, pattern: str) -> Expr:
        """`x like pattern`: `%` is any text, `_` one character."""
        return self._test(f"like {literal_sql(pattern)}")

    def ilike(self, pattern: str) -> Expr:
        """`like`, case-insensitive."""
        return self._test(f"ilike {literal_sql(pattern)}")

    def _equal(self, symbol: str, other: Operand, instead: str) -> Expr:
        # SQL would return NULL for every row, which is never meant
        if other is None:
            raise UserError(f"{self.sql} {symbol} null is true for no row", remedy=f"use {instead}")
        return self._compared(symbol, other)

    def _compared(self, symbol: str, other: Operand) -> Expr:
        return self._test(f"{symbol} {_at(other, Binding.CONCAT)}")

    def _test(self, rest: str) -> Expr:
        return Expr(f"{_at(self, Binding.CONCAT)} {rest}", Binding.COMPARISON)

    # ---- logic ---------------------------------------------------------------------------------------------------

    def __and__(self, other: Operand) -> Expr:
        return _chained(self, "and", other, Binding.AND)

    def __rand__(self, other: Operand) -> Expr:
        return _chained(other, "and", self, Binding.AND)

    def __or__(self, other: Operand) -> Expr:
        return _chained(self, "or", other, Binding.OR)

    def __ror__(self, other: Operand) -> Expr:
        return _chained(other, "or", self, Binding.OR)

    def __invert__(self) -> Expr:
        return Expr(f"not {_at(self, Binding.COMPARISON)}", Binding.NOT)

    # ---- arithmetic ----------------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Expr:
        return _chained(self, "+", other, Binding.SUM)

    def __radd__(self, other: Operand) -> Expr:
        return _chained(other, "+", self, Binding.SUM)

    def __sub__(self, other: Operand) -> Expr:
        return _chained(self, "-", other, Binding.SUM)

    def __rsub__(self, other: Operand) -> Expr:
        return _chained(other, "-", self, Binding.SUM)

    def __mul__(self, other: Operand) -> Expr:
        return _chained(self, "*", other, Binding.PRODUCT)

    def __rmul__(self, other: Operand) -> Expr:
        return _chained(other, "*", self, Binding.PRODUCT)

    def __truediv__(self, other: Operand) -> Expr:
        return _chained(self, "/", other, Binding.PRODUCT)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _chained(other, "/", self, Binding.PRODUCT)

    def __floordiv__(self, other: Operand) -> Expr:
        return _chained(self, "//", other, Binding.PRODUCT)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _chained(other, "//", self, Binding.PRODUCT)

    def __mod__(self, other: Operand) -> Expr:
        return _chained(self, "%", other, Binding.PRODUCT)

    def __rmod__(self, other: Operand) -> Expr:
        return _chained(other, "%", self, Binding.PRODUCT)

    def __pow__(self, other: Operand) -> Expr:
        return _power(self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return _power(other, self)

    def __neg__(self) -> Expr:
        # always an atom: `--5` would begin a comment
        return Expr(f"-{_at(self, Binding.ATOM)}", Binding.SIGN)

    # ---- text, types, parts --------------------------------------------------------------------------------------

    def concat(self, other: Operand) -> Expr:
        """`x || y`: strings joined; NULL where one is."""
        left = self.sql if self.binding is Binding.CONCAT else _at(self, Binding.ATOM)
        return Expr(f"{left} || {_at(other, Binding.ATOM)}", Binding.CONCAT)

    def cast(self, dtype: str) -> Expr:
        """`cast(x as dtype)`: fails the row if the value does not fit."""
        return Expr(f"cast({self.sql} as {dtype})")

    def try_cast(self, dtype: str) -> Expr:
        """`try_cast(x as dtype)`: NULL if the value does not fit."""
        return Expr(f"try_cast({self.sql} as {dtype})")

    def field(self, name: str) -> Expr:
        """A field of a struct."""
        return Expr(f"{_at(self, Binding.ATOM)}.{identifier(name)}")

    def element(self, place: int) -> Expr:
        """An element of a list, counted from 1, or from the end by -1, -2, ..; NULL out of range."""
        return Expr(f"{_at(self, Binding.ATOM)}[{place}]")


Operand = Expr | Value
"""An operand beside an Expr: another Expr, or a plain value, which is a literal."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Expr):
    """A call of an aggregate function. Scalars over such calls are aggregates, too: `sum_(a) / count()`."""

    function: str = ""
    argument: str = "*"
    unique: bool = False
    condition: Expr | None = None

    def distinct(self) -> Aggregate:
        """Counts each value once: `count(distinct x)`. Raises UserError for count(*)."""
        if self.argument == "*":
            raise UserError(
                f"{self.sql} counts rows, which have no distinct values", remedy="count(col(..)).distinct()"
            )
        return _call(self.function, self.argument, unique=True, condition=self.condition)

    def where(self, predicate: Expression) -> Aggregate:
        """Restricts to rows for which the predicate is true: `sum(x) filter (where p)`. A second call narrows the
        first.
        """
        added = expression(predicate)
        condition = added if self.condition is None else self.condition & added
        return _call(self.function, self.argument, unique=self.unique, condition=condition)


Expression = Expr | str
"""The argument of a place for an expression: an Expr, or SQL text."""


def expression(given: Expression | Value) -> Expr:
    """Returns an expression as an Expr: text is SQL, any other plain value a literal."""
    if isinstance(given, Expr):
        return given
    return Expr(given, Binding.TEXT) if isinstance(given, str) else operand(given)


def operand(value: Operand) -> Expr:
    """Returns an operand as an Expr: a plain value, including text, is a literal."""
    if isinstance(value, Expr):
        return value
    text = literal_sql(value)
    return Expr(text, Binding.SIGN if text.startswith("-") else Binding.ATOM)


def col(name: str) -> Expr:
    """The column of that name, quoted if necessary. A field of a struct: `col("a").field("b")`."""
    return Expr(identifier(name))


def lit(value: Value) -> Expr:
    """A literal: None, bool, int, float, Decimal, str, date, datetime (no zone: UTC) or timedelta."""
    return operand(value)


def sql(text: str) -> Expr:
    """SQL text as an Expr, to combine with others."""
    return Expr(text, Binding.TEXT)


def fn(name: str, *arguments: Operand) -> Expr:
    """A function that `headrace functions` lists, by name: `fn("lower", col("x"))`. Plain values are literals."""
    return Expr(f"{call_name(name)}({', '.join(operand(item).sql for item in arguments)})")


def case(*branches: tuple[Expression, Operand], otherwise: Operand = None) -> Expr:
    """`case when p then x .. else y end`: the value of the first branch whose predicate is true."""
    if not branches:
        raise UserError("case has no branches", remedy="give pairs of predicate and value")
    parts = [f"when {expression(predicate).sql} then {operand(value).sql}" for predicate, value in branches]
    rest = "" if otherwise is None else f" else {operand(otherwise).sql}"
    return Expr(f"case {' '.join(parts)}{rest} end")


def count(argument: Expression | None = None) -> Aggregate:
    """`count(*)`: rows; with an argument, rows where it is not NULL."""
    return _call("count", "*" if argument is None else expression(argument).sql)


def sum_(argument: Expression) -> Aggregate:
    """`sum(x)`."""
    return _call("sum", expression(argument).sql)


def avg(argument: Expression) -> Aggregate:
    """`avg(x)`."""
    return _call("avg", expression(argument).sql)


def min_(argument: Expression) -> Aggregate:
    """`min(x)`."""
    return _call("min", expression(argument).sql)


def max_(argument: Expression) -> Aggregate:
    """`max(x)`."""
    return _call("max", expression(argument).sql)


def var(argument: Expression) -> Aggregate:
    """`var(x)`: sample variance; NULL of fewer than two values."""
    return _call("var", expression(argument).sql)


def stddev(argument: Expression) -> Aggregate:
    """`stddev(x)`: sample standard deviation; NULL of fewer than two values."""
    return _call("stddev", expression(argument).sql)


def first(argument: Expression) -> Aggregate:
    """`first(x)`: of the first row, in event time unless the step says `order="arrival"`."""
    return _call("first", expression(argument).sql)


def last(argument: Expression) -> Aggregate:
    """`last(x)`: of the last row, in event time unless the step says `order="arrival"`."""
    return _call("last", expression(argument).sql)


def _call(function: str, argument: str, *, unique: bool = False, condition: Expr | None = None) -> Aggregate:
    rest = "" if condition is None else f" filter (where {condition.sql})"
    text = f"{function}({'distinct ' if unique else ''}{argument}){rest}"
    return Aggregate(text, function=function, argument=argument, unique=unique, condition=condition)


def _at(value: Operand, least: Binding) -> str:
    """Returns an operand's text for a place that needs at least this binding strength."""
    found = operand(value)
    return found.sql if found.binding >= least else f"({found.sql})"


def _chained(left: Operand, symbol: str, right: Operand, binding: Binding) -> Expr:
    """A left-associative operator: a right side of equal rank keeps its parentheses, so the tree stays as built."""
    return Expr(f"{_at(left, binding)} {symbol} {_at(right, Binding(binding + 1))}", binding)


def _power(base: Operand, exponent: Operand) -> Expr:
    return Expr(f"{_at(base, Binding.ATOM)} ** {_at(exponent, Binding.ATOM)}", Binding.PRODUCT)


# ---- names in SQL ----------------------------------------------------------------------------------------------------

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


@functools.cache
def _words() -> frozenset[str]:
    """Returns every word that the SQL tokenizer or parser does not read as a plain name."""
    from sqlglot.dialects.duckdb import DuckDB

    return frozenset(word.upper() for word in (*DuckDB.Tokenizer.KEYWORDS, *DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS))


def identifier(name: str) -> str:
    """Returns the name of a column or field as SQL, quoted if it would not parse as that name. Raises UserError."""
    if not isinstance(name, str) or not name:
        raise UserError(f"{name!r} is no column's name", remedy='write col("name"); a value is lit(..)')
    if _BARE.match(name) and name.upper() not in _words():
        return name
    return '"' + name.replace('"', '""') + '"'


def call_name(name: str) -> str:
    """Returns the name of a function for a call. Raises UserError for a text that is no name."""
    if not _BARE.match(name):
        raise UserError(f"{name!r} is no function's name", remedy='write fn("lower", col("x"))')
    return name.lower()
