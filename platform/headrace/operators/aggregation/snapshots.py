"""The states of an aggregating step as snapshots hold them, and their restore.

    windows | groups       partial aggregates: keys (with windows also `__pane` and `__since`, see `state.PaneKey`),
                           state columns
    distinct_<argument>    one state per argument that is counted distinct: keys (`__pane`, `__since`), value
    counts_<argument>      one per argument whose values are kept with their rows: the same, and the number of rows
    time                   one row per subtask: `watermark`, `arrived` (rows so far, with order: arrival), `ordered`
                           (rows had order columns), and a column whose name encodes the window definition, because
                           restore compares states by column names only: `window:tumbling:3600000:offset:0:UTC`

State of a version that divided local days by elapsed time is restored if no clocks change in its windows.

The name of a state column identifies its content. So a restore drops columns that the step no longer needs, and new
aggregates start empty. Keys, their types and the window definition must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from headrace.core.errors import UserError
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.core.types import Field, polars_type
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregation.window_text import same_window
from headrace.state.snapshot import Chunk, RestoredFrame, RestoredStates, StateKind, StateSnapshot

WINDOWS, GROUPS, TIME = "windows", "groups", "time"
NO_WINDOW = "none"
"""The window definition of a running aggregate."""
_WINDOW_MARK = "window:"
REMEDY = "give the step another name to start it anew, or restore with the step as it was"


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step's state beside its rows: the fields of the state `time`."""

    watermark: int = TIME_MIN
    arrived: int = 0
    ordered: bool = False


class SavedStates:
    """Converts the states of one step to snapshots, and back.

    main     name of the state of the aggregates: `windows` or `groups`
    window   the window definition as text, e.g. `tumbling 3600000 offset 0 UTC`, or NO_WINDOW
    placed   grouping columns beside the keys: `__pane` and `__since`, or none
    is_even  whether no clocks change in the windows of a pane (`Assigner.is_even`); of windows only
    """

    def __init__(
        self,
        node: str,
        keys: Sequence[Field],
        layout: Layout,
        main: str,
        window: str,
        placed: Sequence[str] = (),
        *,
        is_even: Callable[[int], bool] | None = None,
    ) -> None:
        self._node = node
        self._keys = {item.name: polars_type(item.type) for item in keys}
        self._layout = layout
        self._names = layout.state_names(main)
        self._main = main
        self._window = window
        self._placed = list(placed)
        self._is_even = is_even
        self._of_elapsed_time = False
        self._time: Chunk | None = None

    def states(self, chunks: Sequence[Sequence[Chunk]], time: StepTime) -> list[StateSnapshot]:
        """The snapshots of the chunks of each part, then that of the time."""
        keys = tuple(self._keys)
        parts = [
            StateSnapshot(name, StateKind.KEYED, keys, tuple(found))
            for name, found in zip(self._names, chunks, strict=True)
        ]
        return [*parts, StateSnapshot(TIME, StateKind.UNION, (), (self._time_chunk(time),))]

    def _time_chunk(self, time: StepTime) -> Chunk:
        frame = pl.DataFrame(
            {
                "watermark": [time.watermark],
                "arrived": [time.arrived],
                "ordered": [time.ordered],
                _window_column(self._window): [True],
            }
        )
        # an unchanged chunk keeps its id, so that an incremental checkpoint does not write it again
        if self._time is None or not self._time.frame.equals(frame):
            self._time = Chunk(0 if self._time is None else self._time.id + 1, frame)
        return self._time

    def time(self, states: RestoredStates) -> StepTime:
        """The time over all subtasks, with the least watermark. Raises UserError if there are rows and the window
        definition differs.

        A watermark of +inf (the input had ended) restarts from -inf: the restored job reads new input.
        """
        frames = [restored.frame for restored in states.get(TIME, ())]
        for before in windows_in([name for frame in frames for name in frame.columns]):
            if not same_window(before, self._window) and _has_rows(states):
                raise UserError(different_window(self._node, before, self._window), remedy=REMEDY)
            self._of_elapsed_time |= before != self._window
        rows = [row for frame in frames for row in frame.select("watermark", "arrived", "ordered").rows()]
        if not rows:
            return StepTime()
        watermark = min(row[0] for row in rows)
        return StepTime(
            TIME_MIN if watermark == TIME_MAX else watermark, max(row[1] for row in rows), any(row[2] for row in rows)
        )

    def parts(self, states: RestoredStates) -> list[Iterator[RestoredFrame]]:
        """The frames of each part as they are read, with the columns that the step needs; a frame that loses none keeps
        its origin. Iterating them raises UserError if the keys are not the step's, or its windows are divided otherwise
        now."""
        return [
            self._part(states.get(name, ()), part.owns, is_main=name == self._main)
            for name, part in zip(self._names, self._layout.parts, strict=True)
        ]

    def _part(
        self, frames: Iterable[RestoredFrame], owns: Callable[[str], bool], *, is_main: bool
    ) -> Iterator[RestoredFrame]:
        for restored in frames:
            if restored.frame.height:
                if is_main and self._of_elapsed_time and self._is_even is not None:
                    self._require_even(restored.frame, self._is_even)
                yield self._asked(restored, owns)

    def _require_even(self, frame: pl.DataFrame, is_even: Callable[[int], bool]) -> None:
        for pane in sorted(frame.get_column(self._placed[0]).unique().to_list()):
            if not is_even(pane):
                shown = datetime.fromtimestamp(pane / 1000, UTC)
                raise UserError(
                    f"step {self._node}: clocks change in its open windows around {shown},"
                    " and an earlier version divided them by elapsed time instead of the wall clock",
                    remedy="let the version that wrote the state run until these windows have closed, or "
                    + REMEDY.partition(",")[0],
                )

    def _asked(self, restored: RestoredFrame, owns: Callable[[str], bool]) -> RestoredFrame:
        frame = restored.frame
        for name, dtype in self._keys.items():
            if frame.schema.get(name) != dtype:
                found = "has no such column" if name not in frame.columns else f"has {frame.schema[name]}"
                raise UserError(f"step {self._node}: key {name!r} is {dtype}, and its state {found}", remedy=REMEDY)
        by = [*self._placed, *self._keys]
        others = [name for name in frame.columns if name not in by]
        strange = [name for name in others if not name.startswith("__")]
        if strange:
            raise UserError(f"step {self._node}: its state has key {strange[0]!r}, which the step lacks", remedy=REMEDY)
        asked = frame.select(*by, *(name for name in others if owns(name)))
        return RestoredFrame(asked, restored.origin if asked.width == frame.width else None)


def _has_rows(states: RestoredStates) -> bool:
    return any(each.frame.height for name, found in states.items() if name != TIME for each in found)


def _window_column(window: str) -> str:
    return _WINDOW_MARK + window.replace(" ", ":")  # some Parquet readers reject spaces in column names


def windows_in(columns: Iterable[str]) -> list[str]:
    """The window definitions encoded in the columns of the state `time`."""
    marks = dict.fromkeys(name for name in columns if name.startswith(_WINDOW_MARK))
    return [name.removeprefix(_WINDOW_MARK).replace(":", " ") for name in marks]


def different_window(node: str, before: str, now: str) -> str:
    """The error text for state of another window definition."""
    return f"step {node}: its state was kept for window {before}, and the step has {now}"
