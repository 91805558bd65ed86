"""arg_min and arg_max: a value with its position in an order of rows, which begins with the second argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.expr.compiled import AggregateCall
from headrace.operators.aggregates.first_last import PositionState
from headrace.operators.aggregates.given import GivenColumn, PositionOf, meaning
from headrace.operators.aggregates.needs import Form, StateNeeds
from headrace.operators.aggregates.position import LEAST, MOST


@dataclass(frozen=True, slots=True)
class ArgExtremeState(PositionState):
    """The state of a call."""

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


def state(call: AggregateCall, needs: StateNeeds) -> ArgExtremeState:
    """The state of a call."""
    name = call.function.name
    value, by = needs.argument(call, Form.RAW), needs.argument(call, Form.NORMAL, 1)
    prefix = f"{LEAST if name == 'arg_min' else MOST}{value[2:]}_{name}_{needs.order}"
    return ArgExtremeState(call, needs.position(prefix, value, (by,)))
