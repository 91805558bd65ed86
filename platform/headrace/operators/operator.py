"""The operator contract: the operator, its config, the collector of its output, and the policies for failing rows.

A config describes its step to everything that does not know the step's verb: planner, engines, savepoints and status.

    config (frozen) --open()--> Operator:  restore?  on_batch*  (on_watermark, snapshot interleaved)  close

A step has numbered inputs, from 0. A batch is of one input; time is of all of them, so an operator has one watermark,
the minimum over its inputs. The operator of a step with several inputs is a `MultiInputOperator`.

The chain calls `on_watermark` before it passes a watermark on. The operator emits the results that the watermark
completes, and returns the watermark for operators downstream: the same one, or a lower one if later results may lie
behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, runtime_checkable

from headrace.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.step_definition import StepDefinition
    from headrace.core.types import Field, Schema
    from headrace.expr.compiled import CompiledScalar
    from headrace.operators.aggregation.combining import Combiner
    from headrace.operators.bootstrap.state import GivenState
    from headrace.operators.state_shape import StateShape
    from headrace.state.place import StatePlace
    from headrace.state.snapshot import RestoredStates, StateSnapshot

LATE = "late"
"""Side output of rows that are late for all their windows."""
BAD = "bad"
"""Side output of rows that failed; it has the input's columns and `reason`."""
REASON = "reason"


class OnError(StrEnum):
    """The policy for a row that fails in a step."""

    FAIL = "fail"
    SKIP = "skip"
    DIVERT = "divert"


class Collector(Protocol):
    """Receives an operator's output."""

    def emit(self, batch: pl.DataFrame) -> None:
        """Sends rows to the operator's main output, in order."""
        ...

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Sends rows to the side output with this name; they are dropped if it has no receiver."""
        ...

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters: `late`, `partly_late`, `bad`, `skipped`."""
        ...


class OpenedStep(Protocol):
    """The opened part of a step, without its rows: time and state. Used by one thread at a time."""

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Handles the watermark (epoch ms): emits completed results, and returns the watermark to pass on."""
        ...

    def snapshot(self) -> Sequence[StateSnapshot]:
        """The operator's whole state now, as references to immutable frames, so that the call is fast. Does not change
        later results. The same chunk id in a later snapshot means the same rows."""
        ...

    def restore(self, states: RestoredStates) -> None:
        """Restores state before the first batch. `states`: this subtask's share of the rows that all subtasks wrote.

        Raises UserError if a state does not fit this step.
        """
        ...

    def close(self) -> None:
        """Releases all resources, at the end or after a failure. Idempotent."""
        ...


class Operator(OpenedStep, Protocol):
    """The opened part of a step with one input."""

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Processes a batch of at least one row, with hidden columns."""
        ...


@runtime_checkable
class MultiInputOperator(OpenedStep, Protocol):
    """The opened part of a step with several inputs."""

    def on_input(self, number: int, batch: pl.DataFrame, out: Collector) -> None:
        """Processes a batch of at least one row of the input with this number, with hidden columns."""
        ...


@runtime_checkable
class Windowed(Protocol):
    """An operator whose results wait for event time. Any thread may read its properties."""

    @property
    def watermark(self) -> int:
        """The watermark that it has handled last (epoch ms)."""
        ...

    @property
    def next_end(self) -> int | None:
        """End of the first window that has rows and has not fired (epoch ms); None: there is none."""
        ...


@dataclass(frozen=True, slots=True)
class InputNeeds:
    """The properties of its input that a step's results depend on, beside the columns.

    order           the total order of rows
    fails           a row can fail, and its error names the row's source position
    time            the event time
    not_replayable  reasons why the results do not depend on the log alone
    """

    order: bool = False
    fails: bool = False
    time: bool = False
    not_replayable: tuple[str, ...] = ()

    @staticmethod
    def of(scalars: Iterable[CompiledScalar]) -> InputNeeds:
        """Those of expressions that are computed row by row."""
        each = tuple(scalars)
        return InputNeeds(
            fails=any(scalar.fails is not None for scalar in each),
            time=any(scalar.uses_time for scalar in each),
            not_replayable=tuple(scalar.not_replayable for scalar in each if scalar.not_replayable is not None),
        )


class OperatorConfig:
    """The base of the configurations of steps: plain, frozen data only, so that a plan can be serialised.

    A step overrides what is different for it: a step without state and with one input has only `output`, `open` and
    `describe`.

    makes_rows    the rows of the main output are new ones, not rows of the input with other columns
    selects_rows  the step is there to leave rows out, so that an output without rows is worth a warning
    """

    __slots__ = ()
    makes_rows: ClassVar[bool] = False
    selects_rows: ClassVar[bool] = False

    if TYPE_CHECKING:  # each config has them as fields; at runtime a property here would be the field's default

        @property
        def node(self) -> str:
            """The step's name."""

        @property
        def input(self) -> Schema:
            """The visible columns of its input; of several inputs, those that all have."""

    def input_schemas(self) -> tuple[Schema, ...]:
        """The visible columns of each input by its number, in the order that the operator expects."""
        return (self.input,)

    def input_field(self, name: str) -> Field:
        """The input's column with this name. Raises UserError with the nearest name and all names."""
        field = self.input.get(name)
        if field is None:
            columns = f"columns: {', '.join(self.input.names)}"
            hint = did_you_mean(name, self.input.names)
            raise UserError(f"unknown column {name!r}", remedy=f"{hint} {columns}" if hint else columns)
        return field

    def output(self) -> Schema:
        """The columns of the main output. Raises UserError, ExpressionError."""
        raise NotImplementedError

    def side_outputs(self) -> Mapping[str, Schema]:
        """The columns of each side output, without `bad`, which every step has by its `on_error`."""
        return {}

    def needs(self) -> InputNeeds:
        """The properties of its input that the results depend on."""
        return InputNeeds()

    def ordered(self) -> Self:
        """The same step, whose new rows have order columns (`makes_rows`)."""
        return self

    def describe(self) -> str:
        """The settings of the step, as text after its verb."""
        raise NotImplementedError

    def open(self) -> Operator | MultiInputOperator:
        """A new operator of this step, whose state is in memory. It is a MultiInputOperator if the step has several
        inputs."""
        raise NotImplementedError

    def open_in(self, place: StatePlace) -> Operator | MultiInputOperator:
        """The same, with the state in `place`: a step that keeps keyed rows overrides it."""
        return self.open()

    def states(self) -> tuple[StateShape, ...]:
        """The states that it keeps, the main one first."""
        return ()

    def waits(self) -> str:
        """What its results wait for, as text; empty: for nothing."""
        return ""

    def given_state(self) -> GivenState | None:
        """A converter of supplied rows to its state; None: it takes none."""
        return None

    def definition(self) -> StepDefinition | None:
        """The definition of its output, for readers of its state; None: the state has the columns that users know."""
        return None

    def combiner(self) -> Combiner | None:
        """A fresh combiner, for rows partitioned by the step's keys; None if its rows cannot be combined."""
        return None

    @property
    def windowed(self) -> bool:
        """Whether its results wait for event time."""
        return False

    @property
    def held_back_ms(self) -> int:
        """How far the watermark that it passes on lies behind the one that it receives."""
        return 0


class Stateless:
    """Base of operators without state: watermarks pass through."""

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes the watermark on."""
        return watermark

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Returns no state."""
        return ()

    def restore(self, states: RestoredStates) -> None:
        """Ignores state that an earlier version of the step wrote."""

    def close(self) -> None:
        """Does nothing."""
