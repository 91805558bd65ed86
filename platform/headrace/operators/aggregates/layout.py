"""The layout of a step's state: the columns that its aggregate calls need, and the computation of partial frames from
batches. Knows nothing of windows: the caller passes the grouping columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl

from headrace.core.batch import TS
from headrace.core.types import Field
from headrace.expr.compiled import CompiledAggregate, all_calls
from headrace.operators.aggregates import columns, position
from headrace.operators.aggregates.compiled import CompiledGroups, compiled_groups, merged_groups
from headrace.operators.aggregates.count import count_lane
from headrace.operators.aggregates.extremes import Extreme
from headrace.operators.aggregates.needs import ARRIVAL, Order, StateNeeds, lane_expressions, normal_value, prepared
from headrace.operators.aggregates.state import Lane, lane_of
from headrace.operators.aggregates.table import STATES


class StatePart(Protocol):
    """One part of a step's state: computes partial rows from rows, and merges partial rows."""

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Partial rows per group of working rows."""
        ...

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Fewer partial rows with the same meaning; at least one frame."""
        ...

    def owns(self, column: str) -> bool:
        """Whether a state column (not a grouping column) belongs to the part."""
        ...


class Layout:
    """The state columns of a step's aggregates."""

    def __init__(
        self,
        aggregates: Sequence[CompiledAggregate],
        keys: Sequence[Field],
        order: Order = "event",
        *,
        latest: str | None = None,
    ) -> None:
        """`latest`: name of a state column for the greatest event time of a group."""
        self.keys = [item.name for item in keys]
        needs = StateNeeds(order)
        self.calls = [STATES[call.function.name](call, needs) for call in all_calls(aggregates)]
        if not (needs.lanes or needs.positions):
            count_lane(needs, None)  # a group exists even if no aggregate has state
        self.values = tuple(needs.values.values())
        self._places = list(needs.positions.values())
        self._lanes: list[Lane] = list(needs.lanes.values())
        if latest is not None:
            assert latest.startswith(columns.MAX), "the name says how the column merges"
            self._lanes.append(Extreme(latest.removeprefix(columns.MAX), TS, greatest=True, floating=False))
        ordered = needs.order_columns if self._places else ()
        key_columns = [normal_value(pl.col(item.name), item.type).alias(item.name) for item in keys]
        self._working = [*key_columns, *(value.alias(name) for name, value in needs.arguments.values())]
        self._extra = [name for name in ordered if name not in (TS, ARRIVAL)]
        self._arrival = ARRIVAL in ordered
        self._sources = needs.sources
        self._plain = self._sources.keys() == {name for name, _ in needs.arguments.values()}
        self._compiled: CompiledGroups | None = None
        self._is_decided = False
        self.arrived = 0
        """Rows received so far; counted only if arrival is the order."""
        self._ids = frozenset([*(lane.id for lane in self._lanes), *(lane_of(place.prefix) for place in self._places)])

    @property
    def lanes(self) -> frozenset[str]:
        """Ids of the aggregates' own lanes, without those over values."""
        return self._ids

    def lane(self, name: str) -> Lane:
        """The aggregates' own lane with this id."""
        return next(lane for lane in self._lanes if lane.id == name)

    @property
    def parts(self) -> tuple[StatePart, ...]:
        """The aggregates, then one part per argument whose values count."""
        return (self, *self.values)

    def state_names(self, main: str) -> list[str]:
        """The names of the parts' states. main: that of the aggregates."""
        return [main, *(values.state for values in self.values)]

    def compiled(self, batch: pl.DataFrame) -> CompiledGroups | None:
        """The kernel's groups of this step, decided by the types of its first batch; None: polars' path is taken."""
        if not self._is_decided:
            self._is_decided = True
            if not (self._places or self.values):
                rows = batch if self._plain else batch.clear().select(TS, *self._working)
                sources = self._sources if self._plain else {}
                self._compiled = compiled_groups(self.keys, self._lanes, rows.schema, sources)
        return self._compiled

    def rows(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The working rows of a batch: event time, keys in normal form, arguments, prepared columns, order columns.

        The kernel prepares no columns, and it reads arguments that are columns of the batch from the batch itself.
        """
        if self.compiled(batch) is not None:
            return batch if self._plain else batch.select(TS, *self._working)
        rows = batch.select(TS, *self._working, *self._extra)
        if self._arrival:
            start, self.arrived = self.arrived, self.arrived + batch.height
            rows = rows.with_columns(pl.int_range(start, self.arrived, dtype=pl.Int64).alias(ARRIVAL))
        return prepared(self._lanes, rows)

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Working rows as partial aggregates per group."""
        if self._compiled is not None:
            return self._compiled.partial(rows, by)
        places, orders = self._places, list[pl.Series]()
        if places:
            rows, orders = position.rank(rows, places)
        picks = [place.pick() for place in places]
        grouped = columns.group(rows, by, [*lane_expressions(self._lanes, rows), *picks])
        return position.gather(grouped, rows, places, orders) if places else grouped

    def merge(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """Merges partial aggregates of equal groups."""
        merged = merged_groups(frames, by)
        return columns.merge(frames, by) if merged is None else columns.carried(merged)

    def owns(self, column: str) -> bool:
        """Whether a state column belongs to the step's aggregates."""
        return lane_of(column) in self._ids
