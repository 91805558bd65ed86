"""The running aggregate: no window, one row per touched key and batch with the values so far.

Its output edge is updating: the last row of a key replaces the earlier ones. A row's `__ts` is the greatest event time
aggregated for its key (NULL if the source has no time). No row is late. State grows with the number of keys, not with
the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.core.signals import TIME_MIN
from headrace.operators.aggregates.columns import MAX
from headrace.operators.aggregates.compiled import Totals
from headrace.operators.aggregates.exact.limbs import ROWS_MAX
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Order
from headrace.operators.aggregation.deltas import EarlierState, NothingEarlier, Place, Portion, Unit
from headrace.operators.aggregation.failures import RowFailures
from headrace.operators.aggregation.key_buckets import cut_by_bucket, touched_buckets
from headrace.operators.aggregation.results import Results, StepShape
from headrace.operators.aggregation.snapshots import GROUPS, NO_WINDOW, SavedStates, StepTime
from headrace.operators.operator import Collector
from headrace.operators.row_errors import RowErrors
from headrace.state.snapshot import Chunk, RestoredStates, StateSnapshot
from headrace.state.table.table import FRAMES_RECENT_MAX, FRAMES_SEARCHED_MAX, Table

LATEST = f"{MAX}ts"
"""State column: the greatest event time aggregated for a key."""


class RunningAggregate:
    """The operator of an aggregate without a window."""

    def __init__(self, shape: StepShape, errors: RowErrors, order: Order = "event") -> None:
        self._keys = [item.name for item in shape.keys]
        self._layout = Layout(shape.aggregates, shape.keys, order, latest=LATEST)
        self._failures = RowFailures(errors, shape.aggregates, timed=False)
        self._results = Results(shape, self._layout, errors, [], pl.lit(0))
        self._saved = SavedStates(shape.node, shape.keys, self._layout, GROUPS, NO_WINDOW)
        self._tables = [Table(self._keys, partial(part.merge, by=self._keys)) for part in self._layout.parts]
        # with values a key has many rows, and its totals are more than a merge of them
        self._totals = Totals(self._keys if len(self._tables) == 1 else (), self._tables[0].get_sealed)
        self._earlier: EarlierState = NothingEarlier()
        self._buckets: dict[Place, None] = {}

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Emits the new values of every key in the batch, in order of the keys."""
        self._results.input_ordered = ORDER_COLUMNS[0] in batch.columns
        passing = self._failures.passing(batch, out)
        if not passing.height:
            return
        totals: list[pl.DataFrame | None] = []
        touched: list[pl.DataFrame] = []
        # sums of limbs are exact up to this many rows
        for rows in passing.iter_slices(ROWS_MAX) if passing.height > ROWS_MAX else (passing,):
            working = self._layout.rows(rows)
            partials = [part.partial(working, self._keys) for part in self._layout.parts]
            touched.append(partials[0])
            # before the rows are added: the totals of a key include its earlier state
            self._take_earlier(partials[0])
            totals.append(self._updated(partials[0]))
            frames_max = FRAMES_RECENT_MAX if self._totals.is_on else FRAMES_SEARCHED_MAX
            for table, frame in zip(self._tables, partials, strict=True):
                table.add(frame, frames_max=frames_max)
        merged = totals[0] if len(totals) == 1 else None
        if merged is None:
            keys = [frame.select(self._keys) for frame in touched]
            merged = self._merged(keys[0] if len(keys) == 1 else pl.concat(keys).unique())
        ordered = merged.sort(self._keys) if self._keys else merged
        self._results.emit(ordered.rename({LATEST: TS}), out)

    def _updated(self, partials: pl.DataFrame) -> pl.DataFrame | None:
        """The totals of keys with these partial rows, which are not in the table yet."""
        if self._totals.is_full:
            # the totals have the keys of all recent rows: they may be forgotten once the table finds these
            self._tables[0].seal()
            self._totals.forget()
        return self._totals.updated(partials)

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes the watermark on: only batches produce rows."""
        return watermark

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Partial aggregates per key."""
        chunks = [[Chunk(number, frame) for number, frame in table.numbered()] for table in self._tables]
        return self._saved.states(chunks, StepTime(TIME_MIN, self._layout.arrived, self._results.input_ordered))

    def restore(self, states: RestoredStates) -> None:
        """Continues from snapshots. Raises UserError for state with other keys."""
        time = self._saved.time(states)
        self._layout.arrived = time.arrived
        self._results.input_ordered = time.ordered
        self._add(self._saved.parts(states))

    def _add(self, parts: Sequence[Sequence[pl.DataFrame]]) -> None:
        """Adds restored rows, per part."""
        for table, frames in zip(self._tables, parts, strict=True):
            table.restore(frames)

    def resume(self, earlier: EarlierState) -> None:
        """Reads only the time; the state of a key is read when a row of that key arrives."""
        self.restore(earlier.take([unit for unit in earlier.units if not unit.place]))
        self._earlier = earlier
        # `earlier.crowded` is not needed: each bucket has one unit, so units do not become more numerous by writing
        self._buckets = dict.fromkeys(unit.place for unit in earlier.units)

    def portions(self) -> Sequence[Portion]:
        """One unit per key bucket (`key_buckets`), and a unit without a place for the time."""
        time = StepTime(TIME_MIN, self._layout.arrived, self._results.input_ordered)
        *_, saved_time = self._saved.states([[] for _ in self._tables], time)
        parts = [table.compact() if table.rows else pl.DataFrame() for table in self._tables]
        made = [
            Portion(place, tuple(self._saved.states([[Chunk(0, rows)] for rows in cut], time)[:-1]))
            for place, cut in cut_by_bucket(parts, self._keys, self._buckets)
        ]
        return [Portion((), (saved_time,)), *made]

    def _take_earlier(self, touched: pl.DataFrame) -> None:
        """Reads the earlier state of these keys, and of all keys in the same units."""
        units = self._earlier.units
        if units:
            buckets = touched_buckets(touched, self._keys, {unit.place for unit in units})
            self._take_units(unit for unit in units if unit.place in buckets)

    def _take_units(self, units: Iterable[Unit]) -> None:
        wanted = list(units)
        if wanted:
            self._add(self._saved.parts(self._earlier.take(wanted)))

    def close(self) -> None:
        """Does nothing: all state is in memory."""

    def _merged(self, touched: pl.DataFrame) -> pl.DataFrame:
        """The merged groups of the touched keys."""
        frames = self._tables[0].get(touched)
        for table, values in zip(self._tables[1:], self._layout.values, strict=True):
            found = table.get(touched)
            if found:
                frames += values.fold(values.merge(found, self._keys), self._keys)
        return self._layout.merge(frames, self._keys)
