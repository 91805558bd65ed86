"""The columns that a user supplies to start a step's aggregates from (`operators.bootstrap`), and the state that they
become."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.types import DataType, ListOf
from headrace.expr.compiled import AggregateCall


@dataclass(frozen=True, slots=True)
class LaneOf:
    """The state columns of one lane: a count, a sum, a minimum or maximum."""

    lane: str


@dataclass(frozen=True, slots=True)
class SquaresOf:
    """The sum of squares of one lane.

    deviations   the user supplies the sum of squared deviations from the mean instead
    rows, total  the lanes of the count and of the sum of the same values
    unit         the whole number that represents 1 (decimals); None: floats
    """

    lane: str
    deviations: bool
    rows: str
    total: str
    unit: int | None


@dataclass(frozen=True, slots=True)
class ValuesOf:
    """The values of an argument column, each with its rows (`needs.Values`). state: name of the state."""

    state: str


@dataclass(frozen=True, slots=True)
class PositionOf:
    """A value and its row's position in an order of rows.

    index    number of the order column that holds this part of the position; None: the value
    leading  number of order columns before those of the total order of rows
    """

    prefix: str
    index: int | None = None
    leading: int = 0


Becomes = LaneOf | SquaresOf | ValuesOf | PositionOf


@dataclass(frozen=True, slots=True)
class GivenColumn:
    """A column of the rows that a user supplies.

    type        the step's own type; narrower ones are widened
    meaning     description for people
    required    it must be present
    nullable    it may hold NULL
    becomes     the state that it fills; None: a key or a window bound
    counted_by  lane of the count that says whether there is a value; None: NULL says that there is none
    """

    name: str
    type: DataType
    meaning: str
    required: bool = True
    nullable: bool = False
    becomes: Becomes | None = None
    counted_by: str | None = None


def meaning(what: str, call: AggregateCall) -> str:
    """`sum of price where ok`."""
    text = f"{what} of {call.argument.text if call.argument else 'rows'}"
    return text if call.where is None else f"{text} where {call.where.text}"


def given_values(call: AggregateCall, state: str, *, is_counted: bool) -> GivenColumn:
    """The values of an argument as a list, each once, or as often as it counts. state: name of the state."""
    assert call.argument is not None, "values are those of an argument"
    text = meaning("values" if is_counted else "distinct values", call)
    return GivenColumn("values", ListOf(call.argument.type), text, nullable=True, becomes=ValuesOf(state))
