"""first and last: a value with its position in the total order of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import polars_type
from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates.given import GivenColumn, PositionOf, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds
from headrace.operators.aggregates.position import FIRST, LAST
from headrace.operators.aggregates.state import Finished, column_of


@dataclass(frozen=True, slots=True)
class PositionState:
    """The state of a call. place: the prefix of its state columns."""

    call: AggregateCall
    place: str
    is_one_value: bool = True

    def given(self) -> Sequence[GivenColumn]:
        """The value; `operators.bootstrap.columns` adds its position."""
        assert self.call.argument is not None, "first and last have an argument"
        name = self.call.function.name
        dtype = self.call.argument.type
        return [GivenColumn(name, dtype, meaning(name, self.call), nullable=True, becomes=PositionOf(self.place))]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The value."""
        kind = polars_type(self.call.type)
        return Finished(column_of(merged, f"{self.place}.v", kind).cast(kind).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> PositionState:
    """The state of a call."""
    name = call.function.name
    column = needs.argument(call, Form.RAW)
    prefix = f"{FIRST if name == 'first' else LAST}{column[2:]}_{name}_{needs.order}"
    return PositionState(call, needs.position(prefix, column))
