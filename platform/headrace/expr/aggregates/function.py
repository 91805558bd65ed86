"""What the language knows of an aggregate function. Its state is `operators.aggregates`, a file of the same name a
family."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.core.errors import ExpressionError
from headrace.core.types import DataType, ListOf, Primitive, Struct
from headrace.expr.terms.coercion import is_number

ResultType = Callable[[str, Sequence[DataType]], DataType]
"""(name of the function, types of its arguments) -> type of its result. Raises ExpressionError without an offset."""


class Nulls(StrEnum):
    """When the result of a group is NULL. A group has at least one row, but possibly no row that counts."""

    NEVER = "never"
    NO_VALUES = "no row counts"
    FEW_VALUES = "too few rows count"


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function.

    name             its name; state columns may carry it
    result           its result type
    synonyms         further names
    nulls            when its result is NULL
    order_sensitive  whether the result depends on the total order of rows
    arguments        number of arguments that are computed by row
    shares           number of literals from 0 to 1 that follow them
    counts_rows      whether `*` may stand for the argument
    """

    name: str
    result: ResultType
    synonyms: tuple[str, ...] = ()
    nulls: Nulls = Nulls.NO_VALUES
    order_sensitive: bool = False
    arguments: int = 1
    shares: int = 0
    counts_rows: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AggregateForm:
    """A line of the reference: signatures of functions, and the result.

    examples   name or synonym of a function -> a call over the rows of `functions.examples.AGGREGATE_ROWS`, its result
    """

    signatures: tuple[str, ...]
    describes: str
    examples: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Family:
    """Functions that share their state, and their lines of the reference."""

    functions: tuple[AggregateFunction, ...]
    forms: tuple[AggregateForm, ...]


def same_type(_name: str, types: Sequence[DataType]) -> DataType:
    """The type of the first argument."""
    return types[0]


def require_number(name: str, dtype: DataType) -> None:
    """Raises ExpressionError for a type that is not a number."""
    if not is_number(dtype):
        remedy = "count them: count(*) filter (where x)" if dtype == Primitive.BOOL else None
        raise ExpressionError(f"{name} needs numbers, not {dtype}", remedy=remedy)


def require_order(name: str, dtype: DataType) -> None:
    """Raises ExpressionError for a type whose values have no order."""
    if isinstance(dtype, ListOf | Struct):
        raise ExpressionError(f"{name}: values of type {dtype} have no order")


def float_of_number(name: str, types: Sequence[DataType]) -> DataType:
    """`float64`, for an argument that is a number."""
    require_number(name, types[0])
    return Primitive.FLOAT64
