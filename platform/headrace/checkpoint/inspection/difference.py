"""The difference of two cuts, by node and state: rows added, removed and changed, and the columns that differ.

    rows of a step's output, positions       by key (of windows: key and window)
    states of partial aggregates             by key, pane and value, merged to one row for each
    states without a key                     whole rows, as often as they occur: added and removed only

States whose rows lie by key group in both cuts are compared range by range of key groups, so that a small part of both
is in memory. Other states are compared at once: of files of earlier versions, of cuts that differ in max_parallelism,
and states without a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from headrace.checkpoint.inspection.state_rows import StateRows
from headrace.checkpoint.inspection.stored_state import StoredState, states_of
from headrace.checkpoint.inspection.views import POSITIONS, Positions, StepRows, kept_columns, spans
from headrace.checkpoint.manifest import Manifest
from headrace.core.errors import UserError, did_you_mean
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregates import columns as state_columns
from headrace.operators.aggregates.position import positioned_in
from headrace.operators.aggregation.snapshots import GROUPS, WINDOWS
from headrace.operators.window.definitions import WINDOW_COLUMNS

_PLACED = ("__pane", "__since")
_VALUE = "__v_"
_MORE, _BEFORE, _AFTER, _COUNT = "__more", "__before", "__after", "__count"
_LATER = "__later."
"""Prefix of a column of the later cut: no column's name begins with it."""


@dataclass(slots=True)
class StateDifference:
    """The difference of one state.

    keys                     columns that identify a row; none: a row is its own key
    added, removed, changed  numbers of rows; changed: rows with the same key
    columns                  column -> changed rows in which it differs
    only_before, only_after  columns that one of the cuts lacks; they are not compared
    examples                 the first rows that differ: (`added`, `removed` or `changed`, row before, row after)
    """

    node: str
    state: str
    keys: tuple[str, ...]
    rows_before: int = 0
    rows_after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    examples: list[tuple[str, dict[str, object], dict[str, object]]] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        """Whether no row and no column differs."""
        return not (self.added or self.removed or self.changed or self.only_before or self.only_after)


def differences(
    before: Manifest, after: Manifest, node: str | None = None, *, examples_max: int = 0
) -> Iterator[StateDifference]:
    """The difference of each state that one of the cuts has, by node and state; node: of this one only.

    examples_max   most rows of each state that are returned
    Raises UserError for a node that neither cut has, ExternalError for files that are damaged or missing.
    """
    sides = _Cut(before), _Cut(after)
    names = sorted({*sides[0].states, *sides[1].states})
    if node is not None and node not in {each for each, _ in names}:
        known = tuple(dict.fromkeys(each for each, _ in names))
        raise UserError(
            f"neither holds state of a node {node!r}",
            remedy=did_you_mean(node, known) or f"they have: {', '.join(known) or 'none'}",
        )
    for name in names:
        if node in {None, name[0]}:
            yield _difference(name, sides[0], sides[1], examples_max)


class _Rows(Protocol):
    """One state of one cut. keys: columns that identify a row; hashed: what divides it by key group."""

    keys: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    weight: int
    hashed: Sequence[StateRows]

    def frame(self, span: tuple[int, int] | None) -> pl.DataFrame:
        """The rows of these key groups; None: all rows."""
        ...


class _Cut:
    """The states of one manifest, by node and state."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._stored = {(each.node, each.state): each for each in states_of(manifest)}
        self.states = {*self._stored, *((source, POSITIONS) for source in manifest.sources)}

    def is_defined(self, name: tuple[str, str]) -> bool:
        """Whether the state is the main one of a step whose output can be computed."""
        return name in self._stored and name[0] in self._manifest.definitions and name[1] in {WINDOWS, GROUPS}

    def rows(self, name: tuple[str, str], *, defined: bool) -> _Rows:
        """The rows of a state. defined: as the step's output, where the manifest has its definition."""
        node, state = name
        if name in self._stored and defined and self.is_defined(name):
            step = AggregateConfig.defined(node, self._manifest.definitions[node])
            return _StepRows(StepRows(step, [StateRows(own) for (of, _), own in self._stored.items() if of == node]))
        if name in self._stored:
            return _KeptRows(self._stored[name])
        if state == POSITIONS and node in self._manifest.sources:
            return _PositionRows(Positions(node, self._manifest.sources[node]))
        return _NoRows()


class _StepRows:
    def __init__(self, view: StepRows) -> None:
        self._view = view
        bounds = [item.name for item in WINDOW_COLUMNS if item.name in view.columns]
        self.keys: tuple[str, ...] = (*view.keys, *bounds)
        self.columns = view.columns
        self.weight = view.weight
        self.hashed: Sequence[StateRows] = view.hashed

    def frame(self, span: tuple[int, int] | None) -> pl.DataFrame:
        return pl.concat([pl.DataFrame(schema=dict(self.columns)), *self._view.of_groups(span)])


class _KeptRows:
    def __init__(self, stored: StoredState) -> None:
        self._rows = StateRows(stored)
        self.columns: Mapping[str, pl.DataType] = kept_columns(stored)
        self._by = [name for name in self.columns if _is_place(name, stored)]
        places = positioned_in(list(self.columns))
        positioned = {name for place in places for name in (place.value, *place.order)}
        self._merges = self._rows.is_hashed and all(
            name in self._by or name in positioned or state_columns.merge_expression(name) is not None
            for name in self.columns
        )
        self.keys: tuple[str, ...] = tuple(self._by) if self._merges else ()
        self.weight = stored.rows
        self.hashed: Sequence[StateRows] = [self._rows] if self._rows.is_hashed else []

    def frame(self, span: tuple[int, int] | None) -> pl.DataFrame:
        frames = list(self._rows.pieces() if span is None else self._rows.of_groups(span))
        if not frames:
            return pl.DataFrame(schema=dict(self.columns))
        if not self._merges:
            return pl.concat(frames, how="diagonal_relaxed")
        if set(self._by) == set(self.columns):
            return state_columns.concat(frames).unique()
        return state_columns.merge(frames, self._by)


def _is_place(name: str, stored: StoredState) -> bool:
    """Whether a column says what a row is of, not a value of it."""
    return name in stored.keys or name in _PLACED or name.startswith(_VALUE)


class _PositionRows:
    def __init__(self, view: Positions) -> None:
        self._view = view
        self.keys = view.keys
        self.columns = view.columns
        self.weight = view.rows
        self.hashed: Sequence[StateRows] = ()

    def frame(self, span: tuple[int, int] | None) -> pl.DataFrame:
        return pl.concat(self._view.pieces())


class _NoRows:
    """A state that a cut does not have."""

    keys: tuple[str, ...] = ()
    columns: Mapping[str, pl.DataType] = {}
    weight = 0
    hashed: Sequence[StateRows] = ()

    def frame(self, span: tuple[int, int] | None) -> pl.DataFrame:
        return pl.DataFrame()


def _difference(name: tuple[str, str], before: _Cut, after: _Cut, examples_max: int) -> StateDifference:
    # both as output rows, or both as they are kept
    defined = all(name not in cut.states or cut.is_defined(name) for cut in (before, after))
    left, right = before.rows(name, defined=defined), after.rows(name, defined=defined)
    found = StateDifference(*name, keys=left.keys if left.keys == right.keys else ())
    if not (left.columns and right.columns):
        found.keys = left.keys or right.keys
    found.only_before = tuple(each for each in left.columns if right.columns and each not in right.columns)
    found.only_after = tuple(each for each in right.columns if left.columns and each not in left.columns)
    # a state that one of the cuts lacks divides nothing
    hashed = [*left.hashed, *right.hashed]
    is_divided = all(side.hashed or not side.columns for side in (left, right))
    for span in spans(max(left.weight, right.weight), hashed) if is_divided and hashed else [None]:
        _add(found, left.frame(span), right.frame(span), examples_max)
    return found


def _add(found: StateDifference, before: pl.DataFrame, after: pl.DataFrame, examples_max: int) -> None:
    """Adds the difference of some rows."""
    found.rows_before += before.height
    found.rows_after += after.height
    if not before.height or not after.height:
        found.added += after.height
        found.removed += before.height
        _example(found, "removed", before, examples_max)
        _example(found, "added", after, examples_max)
    elif found.keys:
        _add_keyed(found, before, after, examples_max)
    else:
        _add_whole(found, before, after, examples_max)


def _add_keyed(found: StateDifference, before: pl.DataFrame, after: pl.DataFrame, examples_max: int) -> None:
    keys = list(found.keys)
    values = [name for name in before.columns if name in after.columns and name not in keys]
    left = before.select(*keys, *values).with_columns(pl.lit(value=True).alias(_BEFORE))
    later = after.select(*keys, *(pl.col(name).alias(_LATER + name) for name in values))
    right = later.with_columns(pl.lit(value=True).alias(_AFTER))
    both = left.join(right, on=keys, how="full", nulls_equal=True, coalesce=True)
    added = both.filter(pl.col(_BEFORE).is_null())
    removed = both.filter(pl.col(_AFTER).is_null())
    common = both.filter(pl.col(_BEFORE) & pl.col(_AFTER))
    differs = {name: _unequal(common, name) for name in values}
    for name, mask in differs.items():
        if count := int(mask.sum()):
            found.columns[name] = found.columns.get(name, 0) + count
    changed = common.filter(pl.any_horizontal(list(differs.values()))) if values else common.clear()
    found.added += added.height
    found.removed += removed.height
    found.changed += changed.height
    _example(found, "removed", removed.select(*keys, *values), examples_max)
    _example(found, "added", _later(added, keys, values), examples_max)
    _example(found, "changed", changed.select(*keys, *values), examples_max, _later(changed, keys, values))


def _later(frame: pl.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pl.DataFrame:
    return frame.select(*keys, *(pl.col(_LATER + name).alias(name) for name in values))


def _unequal(frame: pl.DataFrame, name: str) -> pl.Series:
    """Whether the values of the two cuts differ. NULL equals NULL, and NaN equals NaN."""
    before, after = frame.get_column(name), frame.get_column(_LATER + name)
    if before.dtype != after.dtype and not (before.dtype.is_numeric() and after.dtype.is_numeric()):
        before, after = before.cast(pl.String), after.cast(pl.String)
    return before.ne_missing(after)


def _add_whole(found: StateDifference, before: pl.DataFrame, after: pl.DataFrame, examples_max: int) -> None:
    """Compares rows as a whole, each as often as it occurs."""
    names = [name for name in before.columns if name in after.columns]
    left = before.group_by(names).agg(pl.len().cast(pl.Int64).alias(_COUNT))
    right = after.group_by(names).agg(pl.len().cast(pl.Int64).alias(_LATER + _COUNT))
    both = left.join(right, on=names, how="full", nulls_equal=True, coalesce=True)
    more = pl.col(_LATER + _COUNT).fill_null(0) - pl.col(_COUNT).fill_null(0)
    counted = both.with_columns(more.alias(_MORE))
    added, removed = counted.filter(pl.col(_MORE) > 0), counted.filter(pl.col(_MORE) < 0)
    found.added += int(added.get_column(_MORE).sum())
    found.removed -= int(removed.get_column(_MORE).sum())
    _example(found, "removed", removed.select(names), examples_max)
    _example(found, "added", added.select(names), examples_max)


def _example(
    found: StateDifference, change: str, rows: pl.DataFrame, examples_max: int, later: pl.DataFrame | None = None
) -> None:
    left = examples_max - len(found.examples)
    if left <= 0:
        return
    before = rows.head(left).to_dicts()
    after = before if later is None else later.head(left).to_dicts()
    for one, other in zip(before, after, strict=True):
        found.examples.append((change, {} if change == "added" else one, {} if change == "removed" else other))
