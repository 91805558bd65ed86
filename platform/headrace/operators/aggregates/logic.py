"""bool_and and bool_or: the least and the greatest of 0 and 1, which the kernel has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import Primitive
from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates.extremes import Extreme
from headrace.operators.aggregates.given import GivenColumn, LaneOf, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds
from headrace.operators.aggregates.state import Finished, by_row, column_of


@dataclass(frozen=True, slots=True)
class Bits(Extreme):
    """The least or greatest of 0 and 1."""

    def supplied(self, values: pl.Series) -> list[pl.Series]:
        """The bit of a bool."""
        return by_row(self, values.cast(pl.Int32))


@dataclass(frozen=True, slots=True)
class LogicState:
    """The state of a call."""

    call: AggregateCall
    bits: Bits
    is_one_value: bool = True

    def given(self) -> Sequence[GivenColumn]:
        """The result."""
        name = self.call.function.name
        becomes = LaneOf(self.bits.id)
        return [GivenColumn(name, Primitive.BOOL, meaning(name, self.call), nullable=True, becomes=becomes)]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The result."""
        return Finished(column_of(merged, self.bits.name, pl.Int32()).cast(pl.Boolean).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> LogicState:
    """The state of a call."""
    name, column = call.function.name, needs.argument(call, Form.BITS)

    def lane(lane_id: str) -> Bits:
        return Bits(lane_id, column, greatest=name == "bool_or", floating=False)

    return LogicState(call, lane(needs.lane(name, column, lane)))
