"""A step with two inputs, for tests of what reads and feeds numbered inputs: no verb has two with keys of their own.

    both: {sides: [left, right], keys: [a, b]}

It emits every row once the watermark has passed it: the number of its input, its key and its value. Each side is
spread, and kept as state, by its own key column. A row below the watermark fails the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl
import pytest
from pydantic import BeforeValidator

from headrace.core.batch import TS, WM
from headrace.core.signals import TIME_MIN
from headrace.core.types import Field, Primitive, Schema, polars_type
from headrace.operators.operator import Collector, InputNeeds, MultiInputOperator, OperatorConfig
from headrace.operators.state_shape import StateShape
from headrace.plan.nodes import LogicalNode
from headrace.plan.partitioning import Hash
from headrace.plan.stream import Stream
from headrace.plan.verbs.step import Step, planner
from headrace.plan.verbs.table import PLANNERS
from headrace.spec.verbs.table import BESIDE, VERBS
from headrace.spec.verbs.verb import Form, Verb
from headrace.state.snapshot import Chunk, RestoredStates, StateKind, StateSnapshot

STATES = ("left", "right")
_Pair = Annotated[tuple[str, ...], BeforeValidator(tuple)]


class Sides(Verb):
    """`sides: [left, right]` with `keys: [left key, right key]`. Both sides have an int64 column `n` besides."""

    NAME = "sides"
    FORM = Form.STEP
    BESIDE = ("keys",)
    NAMES_INPUTS = True

    sides: _Pair
    keys: _Pair

    def file_form(self) -> dict[str, Any]:
        """Both fields."""
        return {"sides": list(self.sides), "keys": list(self.keys)}

    @property
    def named_inputs(self) -> tuple[str, ...]:
        """The two nodes."""
        return tuple(self.sides)


@dataclass(frozen=True, slots=True)
class SidesConfig(OperatorConfig):
    """The step's config."""

    makes_rows = True
    node: str
    input: Schema
    right: Schema
    keys: tuple[str, ...]

    def input_schemas(self) -> tuple[Schema, ...]:
        """Each side's own columns."""
        return self.input, self.right

    def output(self) -> Schema:
        """Number of the input, key and value."""
        return Schema(tuple(Field(name, Primitive.INT64) for name in ("side", "key", "n")))

    def needs(self) -> InputNeeds:
        """Event time."""
        return InputNeeds(time=True)

    def describe(self) -> str:
        """The keys."""
        return ", ".join(self.keys)

    @property
    def windowed(self) -> bool:
        """Rows wait for event time."""
        return True

    def states(self) -> tuple[StateShape, ...]:
        """The rows of each side."""
        key = str(polars_type(Primitive.INT64))
        return tuple(
            StateShape(name, StateKind.KEYED, ((column, key),), per=("row",), dropped="when time has passed them")
            for name, column in zip(STATES, self.keys, strict=True)
        )

    def open(self) -> MultiInputOperator:
        """The operator."""
        return SidesOperator(self.keys)


class SidesOperator:
    """Keeps the rows of both sides until time has passed them."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._rows: list[list[pl.DataFrame]] = [[], []]
        self._chunks = 0
        self.watermark = TIME_MIN
        self.next_end: int | None = None

    def on_input(self, number: int, batch: pl.DataFrame, out: Collector) -> None:
        """Keeps the rows."""
        if WM in batch.columns:
            lowest = batch.filter(pl.col(WM) > TIME_MIN).get_column(WM).min()
            assert not isinstance(lowest, int) or lowest >= self.watermark, f"{lowest!r} is below {self.watermark}"
        self._rows[number].append(batch.select(self._keys[number], "n", TS))
        self._count()

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Emits the rows that time has passed."""
        self.watermark = watermark
        for number, frames in enumerate(self._rows):
            if frames:
                rows = pl.concat(frames)
                self._rows[number] = [rows.filter(pl.col(TS) > watermark)]
                ready = rows.filter(pl.col(TS) <= watermark)
                side = pl.lit(number, dtype=pl.Int64).alias("side")
                out.emit(ready.select(side, pl.col(self._keys[number]).alias("key"), "n", TS).sort(TS, "key", "n"))
        self._count()
        return watermark

    def _count(self) -> None:
        times = [frame.get_column(TS).min() for frames in self._rows for frame in frames]
        self.next_end = min((time + 1 for time in times if isinstance(time, int)), default=None)

    def snapshot(self) -> list[StateSnapshot]:
        """The rows of each side, by its key."""
        states = []
        for name, key, frames in zip(STATES, self._keys, self._rows, strict=True):
            self._chunks += len(frames)
            chunks = tuple(Chunk(self._chunks - at, frame) for at, frame in enumerate(frames))
            states.append(StateSnapshot(name, StateKind.KEYED, (key,), chunks))
        return states

    def restore(self, states: RestoredStates) -> None:
        """Takes the rows over."""
        for number, name in enumerate(STATES):
            self._rows[number] = [each.frame for each in states.get(name, ())]
        self._count()

    def close(self) -> None:
        """Nothing."""


def _plan(verb: Sides, step: Step) -> LogicalNode:
    left, right = step.inputs
    config = SidesConfig(step.name, left.schema, right.schema, tuple(verb.keys))
    return step.placed(
        config,
        Stream(config.output(), timed=True),
        config.needs(),
        parallelism=step.node.parallelism or step.default_parallelism,
        partitionings=tuple(Hash((key,)) for key in verb.keys),
    )


def register(patch: pytest.MonkeyPatch) -> None:
    """Makes `sides` a verb until the patch is undone."""
    model, planned = planner(Sides, _plan)
    patch.setitem(VERBS, Sides.NAME, Sides)
    patch.setitem(BESIDE, "keys", Sides)
    patch.setitem(PLANNERS, model, planned)
