"""The aggregate step: `key_by`, an optional window, and named aggregate expressions.

Owns the step's configuration and the schema of its output. The operator is windowed or running. Its modules are
imported only when the step opens, because checking a pipeline does not need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from headrace.core.config import duration_text
from headrace.core.step_definition import StepDefinition
from headrace.core.types import Field, Schema, polars_type, schema_of
from headrace.expr.compiled import CompiledAggregate, all_calls
from headrace.expr.compiler import compile_aggregates
from headrace.operators.aggregation.combining import Combiner
from headrace.operators.operator import LATE, Collector, InputNeeds, OnError, Operator, OperatorConfig
from headrace.operators.window.definitions import WINDOW_COLUMNS, Tumbling, Window, window_of, window_words

if TYPE_CHECKING:
    from headrace.operators.aggregation.results import StepShape
    from headrace.operators.bootstrap.state import GivenState
    from headrace.operators.state_shape import StateShape
    from headrace.operators.window.pane_assignment import WindowRule
    from headrace.state.place import StatePlace
    from headrace.state.snapshot import RestoredStates


@dataclass(frozen=True, slots=True)
class AggregateConfig(OperatorConfig):
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

    makes_rows: ClassVar[bool] = True

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

    def side_outputs(self) -> Mapping[str, Schema]:
        """`late`, with a window."""
        return {LATE: self.input} if self.windowed else {}

    def needs(self) -> InputNeeds:
        """Those of the arguments, of the window, and of functions that depend on the order of rows."""
        compiled = self.compiled()
        calls = [call for item in compiled for call in item.calls]
        rows = InputNeeds.of(scalar for call in calls for scalar in (*call.arguments, call.where) if scalar is not None)
        sensitive = any(call.function.order_sensitive for call in calls)
        ordered = sensitive and self.order == "event"
        reasons = list(rows.not_replayable)
        if self.lateness == "operator":
            reasons.append("lateness: operator judges rows by when they arrive")
        if sensitive and self.order == "arrival":
            reasons.append("order: arrival takes rows in the order in which they arrive")
        return InputNeeds(
            order=ordered,
            fails=rows.fails or any(item.fails is not None for item in compiled),
            time=rows.time or self.windowed or ordered,
            not_replayable=tuple(reasons),
        )

    def ordered(self) -> Self:
        """The same step, with `order_output`."""
        return replace(self, order_output=True)

    def describe(self) -> str:
        """Aggregates, keys, window and lateness."""
        made = ", ".join(f"{name} = {text}" for name, text in self.aggregates)
        parts = [made, f"by {', '.join(self.keys)}" if self.keys else "over all rows"]
        parts.append("running" if self.window is None else window_words(self.window))
        if self.allowed_lateness_ms:
            parts.append(f"allowed lateness {duration_text(self.allowed_lateness_ms)}")
        return "; ".join(parts)

    @property
    def windowed(self) -> bool:
        """Whether it has a window."""
        return self.window is not None

    @property
    def held_back_ms(self) -> int:
        """The allowed lateness."""
        return self.allowed_lateness_ms

    def states(self) -> tuple[StateShape, ...]:
        """The groups or windows, the values that are counted distinct, and the time."""
        from headrace.operators.aggregates.layout import Layout
        from headrace.operators.aggregation.running import LATEST
        from headrace.operators.aggregation.snapshots import GROUPS, NO_WINDOW, TIME, WINDOWS
        from headrace.operators.state_shape import StateShape
        from headrace.state.snapshot import StateKind

        keys = tuple((field.name, str(polars_type(field.type))) for field in self.key_fields)
        latest = LATEST if self.window is None else None
        layout = Layout(self.compiled(), self.key_fields, self.order, latest=latest)
        main, window = (GROUPS, NO_WINDOW) if self.window is None else (WINDOWS, self.window.definition())
        per = (*(("key",) if keys else ()), *self._spans())
        dropped = self._dropped()
        values = ((each.state, (*per, "value")) for each in layout.values)
        return (
            StateShape(main, StateKind.KEYED, keys, layout.lanes, per=per, dropped=dropped),
            *(StateShape(name, StateKind.KEYED, keys, per=each, dropped=dropped) for name, each in values),
            StateShape(TIME, StateKind.UNION, window=window, per=("subtask",)),
        )

    def waits(self) -> str:
        """The end of each window."""
        if self.window is None:
            return ""
        late = (
            f"; rows up to {duration_text(self.allowed_lateness_ms)} late change it" if self.allowed_lateness_ms else ""
        )
        return f"for time: a window leaves when the watermark passes its end{late}"

    def _spans(self) -> tuple[str, ...]:
        if self.window is None:
            return ()
        return ("window",) if isinstance(self.window, Tumbling) else ("pane of time",)

    def _dropped(self) -> str:
        if self.window is None:
            return ""
        end = "its window's end" if isinstance(self.window, Tumbling) else "the end of its last window"
        late = f" + {duration_text(self.allowed_lateness_ms)}" if self.allowed_lateness_ms else ""
        return f"when the watermark passes {end}{late}"

    def given_state(self) -> GivenState:
        """A converter of supplied rows to its state."""
        from headrace.operators.bootstrap.state import GivenState

        return GivenState(self)

    def open(self) -> Operator:
        """A new operator of this step, with its state in memory."""
        from headrace.state.place import StatePlace

        return self.open_in(StatePlace())

    def open_in(self, place: StatePlace) -> Operator:
        """A new operator of this step, with its state in `place`."""
        from headrace.operators.aggregation.running import RunningAggregate
        from headrace.operators.row_errors import RowErrors
        from headrace.operators.window.operator import WindowAggregate

        errors = RowErrors(self.node, self.on_error)
        if self.window is None:
            return RunningAggregate(self._shape(), errors, place, self.order)
        rule = self._rule(self.window)
        return WindowAggregate(self._shape(), self.window.assigner(), rule, errors=errors, place=place)

    def definition(self) -> StepDefinition:
        """Keys, window, aggregates, and the input columns that they read."""
        calls = all_calls(self.compiled())
        scalars = [scalar for call in calls for scalar in (*call.arguments, call.where) if scalar is not None]
        read = frozenset(self.keys).union(*(scalar.columns for scalar in scalars))
        return StepDefinition(
            keys=self.keys,
            window=None if self.window is None else self.window.definition(),
            aggregates=dict(self.aggregates),
            input={item.name: item.type_text for item in self.input if item.name in read},
            order=self.order,
        )

    @classmethod
    def defined(cls, node: str, definition: StepDefinition) -> Self:
        """The step of a definition, for `emit_state`. A row that has no result is skipped."""
        return cls(
            node=node,
            keys=definition.keys,
            window=None if definition.window is None else window_of(definition.window),
            aggregates=tuple(definition.aggregates.items()),
            input=schema_of(definition.input),
            order=definition.order,
            on_error=OnError.SKIP,
        )

    def emit_state(self, states: RestoredStates, out: Collector) -> None:
        """Emits the rows that a state stands for: the result of each key, or of each window that has not fired and key.

        states: those that the step wrote, as for `restore`. Raises UserError if they do not fit the step.
        """
        from headrace.core.signals import TIME_MAX
        from headrace.operators.aggregation.running import RunningAggregate

        operator = self.open()
        operator.restore(states)
        if isinstance(operator, RunningAggregate):
            operator.emit_all(out)
        else:
            operator.on_watermark(TIME_MAX, out)

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
