"""arg_min and arg_max: a value with its position in an order of rows, which begins with the second argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.core.types import polars_type
from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates.given import GivenColumn, PositionOf, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds
from headrace.operators.aggregates.position import LEAST, MOST
from headrace.operators.aggregates.state import Finished, column_of


@dataclass(frozen=True, slots=True)
class ArgExtremeState:
    """The state of a call. place: the prefix of its state columns."""

    call: AggregateCall
    place: str
    is_one_value: bool = True

    def given(self) -> Sequence[GivenColumn]:
        """The value, and the second argument of its row; `operators.bootstrap.columns` adds its position."""
        value, by = self.call.arguments
        name = self.call.function.name
        text = f"{meaning(name, self.call)} by {by.text}"
        of = PositionOf(self.place, leading=1)
        return [
            GivenColumn(name, value.type, text, nullable=True, becomes=of),
            GivenColumn("by", by.type, f"{by.text} of that row", nullable=True, becomes=PositionOf(self.place, 0, 1)),
        ]

    def finish(self, merged: pl.DataFrame) -> Finished:
        """The value."""
        kind = polars_type(self.call.type)
        return Finished(column_of(merged, f"{self.place}.v", kind).cast(kind).alias(self.call.slot))


def state(call: AggregateCall, needs: StateNeeds) -> ArgExtremeState:
    """The state of a call."""
    name = call.function.name
    value, by = needs.argument(call, Form.RAW), needs.argument(call, Form.NORMAL, 1)
    prefix = f"{LEAST if name == 'arg_min' else MOST}{value[2:]}_{name}_{needs.order}"
    return ArgExtremeState(call, needs.position(prefix, value, (by,)))
