"""Partial aggregates and their merges by the group-by kernel (`kernels.group_by`), where it has all that a step needs.

The state columns are those of polars' path (`columns`, `lanes`), and so are the results: frames of both merge with each
other. The kernel knows keys of whole numbers, times, strings and binaries, and aggregates that are counts, sums, and
extremes of numbers and times. All other steps take polars' path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from headrace.kernels.group_by import (
    KEYS_MAX,
    Action,
    Aggregate,
    Form,
    Grouping,
    GroupTable,
    KeyColumn,
    is_available,
    key_form,
    value_form,
)
from headrace.operators.window.accumulator.columns import MAX, MIN, NANMAX, SUM
from headrace.operators.window.accumulator.lanes import Lane


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
        return pl.concat(table.take())


def compiled_groups(
    keys: Sequence[str], lanes: Sequence[Lane], schema: Mapping[str, pl.DataType], sources: Mapping[str, str]
) -> CompiledGroups | None:
    """The kernel's groups for rows with this schema; None if it is missing, or lacks a key's type or an aggregate.

    sources   argument column -> the column of the rows that it is, if the rows have it under another name
    """
    # two more columns may come before the keys: pane and since
    if not is_available() or not keys or len(keys) > KEYS_MAX - 2:
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
    if not by or not is_available() or len(by) > KEYS_MAX:
        return None
    schema: dict[str, pl.DataType] = {}
    for frame in frames:
        schema |= frame.schema
    if any(key_form(schema[key]) is None for key in by):
        return None
    aggregates: list[Aggregate] = []
    for name in schema.keys() - set(by):
        made = _merge(name, schema[name])
        if made is None:
            return None
        aggregates.append(made)
    order = list(schema)
    aggregates.sort(key=lambda made: order.index(made.name))
    table = GroupTable(Grouping(tuple(KeyColumn(key, schema[key]) for key in by), tuple(aggregates)))
    table_rows = 0
    for frame in frames:
        table.add(frame)
        table_rows += frame.height
    made_frames = table.take()
    # a merge of keys with more text than one frame holds is left to polars: it has to be one row per group
    return made_frames[0] if len(made_frames) == 1 and table_rows else None


def _merge(name: str, dtype: pl.DataType) -> Aggregate | None:
    """How the state column `name` merges, as `columns.merge_expression` has it."""
    form = value_form(dtype)
    if name.startswith(SUM) and form in (Form.INT64, Form.INT128):
        return Aggregate(Action.SUM, name, name, dtype)
    if name.startswith((MIN, MAX, NANMAX)) and form is not Form.ANY:
        return Aggregate(Action.MIN if name.startswith(MIN) else Action.MAX, name, name, dtype)
    return None
