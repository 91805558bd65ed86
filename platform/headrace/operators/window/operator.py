"""The windowed aggregate: rows are added to panes, watermarks fire windows.

A pane is the longest span of time whose moments belong to the same windows (`assigner`; Flink's slice).

    on_batch:      removes failing rows, then late rows; adds the others to the state, as partial aggregates per pane
    on_watermark:  at watermark W, windows that end at W + 1 or before fire, in the order of their ends; their panes are
                   dropped when the allowed lateness has passed too

Within a window result rows are ordered by key, so the output does not depend on batches. With allowed lateness L, fired
windows are kept until end - 1 + L <= W. A late row within L makes its groups fire again at the end of its batch, with
all their values. The watermark passed on is W - L, because these results may lie up to L behind W.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.operators.aggregates.exact.limbs import ROWS_MAX
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregation.combining import Partials
from headrace.operators.aggregation.deltas import EarlierState, NothingEarlier, Portion, Unit, of_round, rounds
from headrace.operators.aggregation.failures import RowFailures
from headrace.operators.aggregation.results import Results, StepShape
from headrace.operators.aggregation.snapshots import WINDOWS, SavedStates, StepTime
from headrace.operators.operator import Collector
from headrace.operators.row_errors import RowErrors
from headrace.operators.window.assigner import Assigner, Span
from headrace.operators.window.pane_assignment import PaneAssignment, PaneRanges, RowsByPane, RowsWithPane, WindowRule
from headrace.operators.window.placed_rows import PANE, SINCE, PaneKey
from headrace.operators.window.state import WINDOW_END, WINDOW_START, WindowState
from headrace.state.place import StatePlace
from headrace.state.snapshot import Chunk, RestoredStates, StateSnapshot

_PORTIONS_MAX = 8
"""Most units with a place that `portions` returns."""
_GROUP = "__group"


class WindowAggregate:
    """The operator of a windowed aggregate."""

    def __init__(
        self, shape: StepShape, assigner: Assigner, rule: WindowRule, *, errors: RowErrors, place: StatePlace
    ) -> None:
        self._rule = rule
        self._keys = [item.name for item in shape.keys]
        self._layout = Layout(shape.aggregates, shape.keys, rule.order)
        self._assigner = assigner
        self._state = WindowState(self._layout, assigner, place)
        placed, is_even = (PANE, SINCE), assigner.is_even
        self._saved = SavedStates(
            shape.node, shape.keys, self._layout, WINDOWS, rule.definition, placed, is_even=is_even
        )
        self._assignment = PaneAssignment(self._layout, assigner, rule)
        self._failures = RowFailures(errors, shape.aggregates, timed=True)
        self._watermark = TIME_MIN
        self._budget = place.budget
        self._earlier: EarlierState = NothingEarlier()
        stamp = pl.Datetime("us", "UTC")
        around = [
            (pl.col(column) * 1000).cast(stamp).alias(name)
            for column, name in ((WINDOW_START, "window_start"), (WINDOW_END, "window_end"))
        ]
        self._results = Results(shape, self._layout, errors, around, pl.col(WINDOW_START))

    @property
    def watermark(self) -> int:
        """The watermark up to which windows have fired (epoch ms)."""
        return self._watermark

    @property
    def next_end(self) -> int | None:
        """End of the first window with rows that has not fired (epoch ms); None: there is none."""
        return self._state.next_end

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Adds rows to their panes; rows that are late for all their windows go to the side output `late`."""
        self._results.input_ordered = ORDER_COLUMNS[0] in batch.columns
        for part in batch.iter_slices(ROWS_MAX) if batch.height > ROWS_MAX else (batch,):
            passing = self._failures.passing(part, out)
            if passing.height:
                self._take(passing, out)

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Fires windows that end by `watermark`; returns `watermark` less the allowed lateness."""
        self._take_earlier(watermark)
        self._watermark = max(self._watermark, watermark)
        held = self._held(watermark)
        for windows in self._state.bounded(self._state.take_due(watermark)):
            for merged in self._state.merged(windows, gone=held):
                self._emit(merged, out)
        self._state.drop_before(held)
        return held

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Partial aggregates per pane, and the watermark: windows that end by it have fired."""
        time = StepTime(self._watermark, self._layout.arrived, self._results.input_ordered)
        return self._saved.states(self._state.chunks(), time)

    def portions(self) -> Iterator[Portion]:
        """Divides the state into units (rows that are written and read together, see `aggregation.deltas`) by the end
        of the first window that still needs each pane.

        A unit's place is that end, so that a later increment reads the unit only when its watermark reaches the end.
        Panes with neighbouring ends share a unit, with the least end as its place, so that there are at most
        `_PORTIONS_MAX` units. The step's time (`StepTime`) is one more unit, without a place.
        """
        ends = self._state.first_ends(self._held(self._watermark))
        time = StepTime(self._watermark, self._layout.arrived, self._results.input_ordered)
        *_, saved_time = self._saved.states([[] for _ in self._layout.parts], time)
        yield Portion((), (saved_time,))
        count = rounds(self._budget)
        for number in range(count):
            whole = self._state.whole(functools.partial(of_round, keys=self._keys, number=number, of=count))
            for end, parts in _cut_by_end(whole, ends).items():
                yield Portion((end,), tuple(self._saved.states([[Chunk(0, rows)] for rows in parts], time)[:-1]))

    def resume(self, earlier: EarlierState) -> None:
        """Reads three kinds of earlier units: the step's time, panes of windows that have fired and may fire again, and
        the newest units if there are too many (`EarlierState.crowded`), so that `portions` writes them as fewer."""
        unplaced = earlier.take([unit for unit in earlier.units if not unit.place])
        self.restore(unplaced)
        self._earlier = earlier
        self._take_units(earlier.crowded)
        self._take_earlier(self._watermark)

    def _take_earlier(self, watermark: int) -> None:
        """Reads the panes of windows that end by `watermark`."""
        self._take_units(unit for unit in self._earlier.units if unit.place[0] - 1 <= watermark)

    def _take_units(self, units: Iterable[Unit]) -> None:
        wanted = list(units)
        if not wanted:
            return
        self._state.restore(self._saved.parts(self._earlier.take(wanted)), self._held(self._watermark))
        self._state.take_due(
            self._watermark
        )  # the restored panes have registered windows again that fired before; these must not fire twice

    def restore(self, states: RestoredStates) -> None:
        """Continues from snapshots. Raises UserError for state with other keys or windows."""
        time = self._saved.time(states)
        self._watermark = time.watermark
        self._layout.arrived = time.arrived
        self._results.input_ordered = time.ordered
        self._state.restore(self._saved.parts(states), self._held(time.watermark))
        self._state.take_due(time.watermark)

    def close(self) -> None:
        """Does nothing: all state is in memory."""

    def _held(self, watermark: int) -> int:
        if watermark == TIME_MAX:
            return TIME_MAX
        return max(TIME_MIN, watermark - self._rule.allowed_lateness_ms)

    def take_partials(self, partials: Partials) -> None:
        """Adds a combiner's partial aggregates of this step."""
        self._results.input_ordered = partials.ordered
        self._state.add_partials(partials.parts)

    def _take(self, batch: pl.DataFrame, out: Collector) -> None:
        added: list[tuple[PaneKey, pl.DataFrame]] = []
        assigned = self._assignment.assign(batch, self._watermark, out)
        if isinstance(assigned, PaneRanges):
            if not self._refires() and self._state.add_ranges(assigned.rows, assigned.panes):
                return
            assigned = assigned.by_pane()
        match assigned:
            case RowsByPane(panes):
                added = [(pane, self._state.add(pane, rows)[0]) for pane, rows in panes]
            case RowsWithPane(rows):
                partial = self._state.add_with_pane(rows)
                if self._refires():
                    parts = partial.partition_by(PANE, SINCE, include_key=False, as_dict=True)
                    added = [((int(pane), int(end)), frame) for (pane, end), frame in parts.items()]
            case never:
                assert_never(never)
        self._refire(added, out)

    def _emit(self, merged: pl.DataFrame, out: Collector) -> None:
        self._results.emit(merged.with_columns((pl.col(WINDOW_END) - 1).alias(TS)), out)

    def _refires(self) -> bool:
        return self._rule.allowed_lateness_ms > 0

    def _refire(self, added: Iterable[tuple[PaneKey, pl.DataFrame]], out: Collector) -> None:
        """Emits again the groups of fired windows that received rows."""
        if not self._refires():
            return
        self._state.take_due(
            self._watermark
        )  # a window whose first row is late fires below, so it must not be due at the next watermark too
        touched: dict[Span, list[pl.DataFrame]] = {}
        for pane, partial in added:
            for window in self._state.over(pane, self._watermark):
                touched.setdefault(window, []).append(partial)
        for window in sorted(touched, key=lambda span: (span[1], span[0])):
            only = pl.concat([frame.select(self._keys) for frame in touched[window]]).unique() if self._keys else None
            for merged in self._state.merged([window], only):
                self._emit(merged, out)


def _cut_by_end(parts: Sequence[pl.DataFrame], ends: Mapping[PaneKey, int]) -> dict[int, list[pl.DataFrame]]:
    """Divides the rows of each part by the end of their pane: end -> the rows of each part. Neighbouring ends share an
    entry, keyed by the least of them, if there are more than `_PORTIONS_MAX`. Rows of panes without an end are
    dropped."""
    if not ends:
        return {}
    distinct = sorted(set(ends.values()))
    size = -(-len(distinct) // _PORTIONS_MAX)
    groups = {end: distinct[number // size * size] for number, end in enumerate(distinct)}
    table = pl.DataFrame(
        [(pane, since, groups[end]) for (pane, since), end in ends.items()],
        schema=dict.fromkeys((PANE, SINCE, _GROUP), pl.Int64),
        orient="row",
    )
    cut: dict[int, list[pl.DataFrame]] = {}
    placed = [part.join(table, on=[PANE, SINCE], how="inner") for part in parts]
    for end in dict.fromkeys(groups.values()):
        rows = [part.filter(pl.col(_GROUP) == end).drop(_GROUP) for part in placed]
        if any(part.height for part in rows):
            cut[end] = rows
    return cut
