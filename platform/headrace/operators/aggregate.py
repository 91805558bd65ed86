"""The aggregate step: `key_by`, an optional window, and named aggregate expressions.

Owns the step's configuration and the schema of its output. The operator is windowed or running. Its modules are
imported only when the step opens, because checking a pipeline does not need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.core.types import TIMESTAMP, Field, Schema
from headrace.expr.compiled import CompiledAggregate
from headrace.expr.compiler import compile_aggregates
from headrace.operators.aggregation.combining import Combiner
from headrace.operators.operator import OnError, Operator
from headrace.operators.window.definitions import Window

if TYPE_CHECKING:
    from headrace.operators.aggregation.results import StepShape
    from headrace.operators.window.pane_assignment import WindowRule

WINDOW_COLUMNS = (Field("window_start", TIMESTAMP, nullable=False), Field("window_end", TIMESTAMP, nullable=False))


@dataclass(frozen=True, slots=True)
class AggregateConfig:
    """A validated aggregate step: its columns exist, and the window's `check` is empty.

    keys         visible key columns; none: one group
    window       None: a running aggregate, whose output edge is updating
    aggregates   (name, SQL text), in output order
    lateness     `row`: the lateness of a row is judged by the watermark of its own partition just after the row
                 (`__wm`, `core.batch`); `operator`: by the operator's watermark, as in Flink, which is not replayable
    order        the order of rows for first and last: by event time and position, or by arrival, which is not
                 replayable
    order_output output rows have order columns, because a step downstream needs them
    """

    node: str
    keys: tuple[str, ...]
    window: Window | None
    aggregates: tuple[tuple[str, str], ...]
    input: Schema
    allowed_lateness_ms: int = 0
    lateness: Literal["row", "operator"] = "row"
    order: Literal["event", "arrival"] = "event"
    order_output: bool = False
    on_error: OnError = OnError.FAIL

    def compiled(self) -> tuple[CompiledAggregate, ...]:
        """The aggregate expressions. Raises ExpressionError."""
        return tuple(compile_aggregates(dict(self.aggregates), self.input, self.keys))

    def output(self) -> Schema:
        """Keys, window_start and window_end (with a window), aggregates."""
        fields = tuple(Field(item.name, item.type, item.nullable) for item in self.compiled())
        return Schema((*self.key_fields, *(WINDOW_COLUMNS if self.window else ()), *fields))

    def open(self) -> Operator:
        """A new operator of this step."""
        from headrace.operators.aggregation.running import RunningAggregate
        from headrace.operators.row_errors import RowErrors
        from headrace.operators.window.operator import WindowAggregate

        errors = RowErrors(self.node, self.on_error)
        if self.window is None:
            return RunningAggregate(self._shape(), errors, self.order)
        return WindowAggregate(self._shape(), self.window.assigner(), self._rule(self.window), errors)

    def combiner(self) -> Combiner | None:
        """A fresh combiner, which computes partial aggregates before the exchange. None unless every window fires once,
        and lateness and order depend on the rows alone."""
        if self.window is None or self.allowed_lateness_ms or self.lateness != "row" or self.order != "event":
            return None
        from headrace.operators.aggregates.layout import Layout
        from headrace.operators.aggregation.failures import RowFailures
        from headrace.operators.row_errors import RowErrors
        from headrace.operators.window.combiner import WindowCombiner

        compiled = self.compiled()
        failures = RowFailures(RowErrors(self.node, self.on_error), compiled, timed=True)
        layout = Layout(compiled, self.key_fields, self.order)
        return WindowCombiner(layout, self.window.assigner(), self._rule(self.window), failures)

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The key columns with their types."""
        return tuple(self.input.field(name) for name in self.keys)

    def _shape(self) -> StepShape:
        from headrace.operators.aggregation.results import StepShape

        return StepShape(self.node, self.input, self.key_fields, self.compiled(), self.order_output)

    def _rule(self, window: Window) -> WindowRule:
        from headrace.operators.window.pane_assignment import WindowRule

        return WindowRule(window.definition(), self.allowed_lateness_ms, self.lateness, self.order)
