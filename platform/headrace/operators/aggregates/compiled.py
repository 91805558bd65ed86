"""Partial aggregates and their merges by the group-by kernel (`kernels.group`), where it has all that a step needs.

The state columns are those of polars' path (`columns`, `state`), and so are the results: frames of both merge with each
other. The kernel knows keys of whole numbers, times, strings and binaries, and aggregates that are counts, sums, and
extremes of numbers and times. All other steps take polars' path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from headrace.kernels.arrow_columns import Form, key_form, value_form
from headrace.kernels.group.group_by import KEYS_MAX, Action, Aggregate, Grouping, GroupTable, KeyColumn
from headrace.kernels.library import is_loaded
from headrace.operators.aggregates import columns
from headrace.operators.aggregates.columns import MAX, MIN, NANMAX, SUM
from headrace.operators.aggregates.state import Lane
from headrace.state.place import CacheBound

TOTALS_BYTES_MAX = 64 << 20
"""Bytes of the totals of one step beyond which they are forgotten, where the budget does not say less."""
_ADDED_MAX = 1 << 18
"""Frames added to totals before the totals are carried: a carried frame adds at most 2^44 to a limb of int64."""


class CompiledGroups:
    """Computes partial aggregates of one step's rows."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._tables: dict[tuple[str, ...], GroupTable] = {}

    def table(self) -> GroupTable:
        """A new table, for rows grouped by the step's keys."""
        return GroupTable(self._grouping)

    def partial(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Partial rows per group of at least one working row. by: the step's keys, and before them columns of int64."""
        assert rows.height, "rows are aggregated where there are some"
        table = self._tables.get(tuple(by))
        if table is None:
            placed = len(by) - len(self._grouping.keys)
            keys = (*(KeyColumn(name, pl.Int64()) for name in by[:placed]), *self._grouping.keys)
            table = self._tables[tuple(by)] = GroupTable(Grouping(keys, self._grouping.aggregates))
        table.add(rows)
        frames = table.take()
        # a table that was full before the last row may have one group in several frames
        return frames[0] if len(frames) == 1 else columns.merge(frames, by)


def compiled_groups(
    keys: Sequence[str], lanes: Sequence[Lane], schema: Mapping[str, pl.DataType], sources: Mapping[str, str]
) -> CompiledGroups | None:
    """The kernel's groups for rows with this schema; None if it is missing, or lacks a key's type or an aggregate.

    sources   argument column -> the column of the rows that it is, if the rows have it under another name
    """
    # two more columns may come before the keys: pane and since
    if not is_loaded() or not keys or len(keys) > KEYS_MAX - 2:
        return None
    if any(schema[key].is_float() or key_form(schema[key]) is None for key in keys):
        return None
    aggregates: list[Aggregate] = []
    for lane in lanes:
        column = None if lane.column is None else sources.get(lane.column, lane.column)
        made = lane.aggregate(pl.Boolean() if column is None else schema[column])
        if made is None:
            return None
        aggregates.append(Aggregate(made.action, made.name, column, made.dtype))
    return CompiledGroups(Grouping(tuple(KeyColumn(key, schema[key]) for key in keys), tuple(aggregates)))


def merged_groups(frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame | None:
    """Partial frames merged to one row per group; None if the kernel is missing, or lacks a key's type or a merge."""
    schema: dict[str, pl.DataType] = {}
    for frame in frames:
        schema |= frame.schema
    grouping = _merge_grouping(schema, by)
    if grouping is None:
        return None
    table = GroupTable(grouping)
    for frame in frames:
        table.add(frame)
    merged = table.take()
    # a merge of keys with more text than one frame holds is left to polars: it has to be one row per group
    return merged[0] if len(merged) == 1 else None


class Totals:
    """The totals of keys that had rows lately, for steps that emit the totals of every key that receives rows: a cache
    over a table of partial aggregates, which has all rows.

    It is off where the kernel lacks a key's type or a merge: then `updated` returns None, and the caller merges what
    its table has.
    """

    def __init__(
        self, keys: Sequence[str], earlier: Callable[[pl.DataFrame], Sequence[pl.DataFrame]], bound: CacheBound
    ) -> None:
        """earlier: returns the partial rows of these keys that were added before. It is asked for a key when the key's
        first row comes, and not again before `forget`."""
        self._bound = bound
        self._keys = list(keys)
        self._earlier = earlier
        self._table: GroupTable | None = None
        self._schema: dict[str, pl.DataType] = {}
        self._added = 0
        self._is_off = not keys or not is_loaded()

    @property
    def is_on(self) -> bool:
        """Whether `updated` returned the totals of all rows so far, or there were none."""
        return not self._is_off

    @property
    def is_full(self) -> bool:
        """Whether it is larger than its bound, so that its owner should call `forget`."""
        return self.size_bytes > self._bound.bytes_max

    @property
    def size_bytes(self) -> int:
        """The memory that it holds."""
        return 0 if self._table is None else self._table.size_bytes

    def forget(self) -> None:
        """Empties the cache. `earlier` must know all rows from now on."""
        # an emptied table would keep its memory
        self._table, self._schema = None, {}

    def updated(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        """Adds partial rows of distinct keys, and returns the totals of these keys, in the same order."""
        frame = columns.carried(frame)
        if (table := self._table_for(frame)) is None:
            return None
        known = table.groups
        numbers = table.add_numbered(frame)
        if numbers is None:
            self._switch_off()
            return None
        if len(fresh := np.flatnonzero(numbers >= known)):
            for rows in self._earlier(frame.select(self._keys)[pl.Series(fresh)]):
                carried = columns.carried(rows)
                # a table that is made anew for more columns keeps the numbers of its groups
                if (table := self._table_for(carried)) is None:
                    return None
                table.add(carried)
        return columns.carried(table.groups_of(numbers))

    def _table_for(self, frame: pl.DataFrame) -> GroupTable | None:
        """The table, with an aggregate for every column of the frame."""
        if self._is_off or not frame.height:
            return self._table
        self._added += 1
        if frame.schema.keys() <= self._schema.keys() and self._added < _ADDED_MAX:
            return self._table
        # a carry may add a limb, which needs an aggregate too
        earlier = [columns.carried(groups) for groups in self._table.take()] if self._table is not None else []
        for groups in (frame, *earlier):
            self._schema |= groups.schema
        grouping = _merge_grouping(self._schema, self._keys)
        if grouping is None:
            self._switch_off()
            return None
        table = GroupTable(grouping)
        for groups in earlier:
            table.add(groups)
        self._table, self._added = table, 0
        return table

    def _switch_off(self) -> None:
        self._is_off, self._table = True, None


def _merge_grouping(schema: Mapping[str, pl.DataType], by: Sequence[str]) -> Grouping | None:
    if not by or not is_loaded() or len(by) > KEYS_MAX or any(key_form(schema[key]) is None for key in by):
        return None
    aggregates: list[Aggregate] = []
    for name, dtype in schema.items():
        if name not in by:
            merge = _merge(name, dtype)
            if merge is None:
                return None
            aggregates.append(merge)
    return Grouping(tuple(KeyColumn(key, schema[key]) for key in by), tuple(aggregates))


def _merge(name: str, dtype: pl.DataType) -> Aggregate | None:
    """How the state column `name` merges, as `columns.merge_expression` has it."""
    form = value_form(dtype)
    if name.startswith(SUM) and form in (Form.INT64, Form.INT128):
        return Aggregate(Action.SUM, name, name, dtype)
    if name.startswith((MIN, MAX, NANMAX)) and form is not Form.ANY:
        return Aggregate(Action.MIN if name.startswith(MIN) else Action.MAX, name, name, dtype)
    return None
