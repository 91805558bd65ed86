"""A node's state as a table that users know, read in pieces of bounded size.

    KeptRows    one state as it is kept (`--state`)
    StepRows    the state of a step as rows of its output: the result of each key, or of each open window and key
    Positions   how far a source has been read

Every view reads the rows of one key without the others, if its rows lie by key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from headrace.checkpoint.inspection.state_rows import StateRows
from headrace.checkpoint.inspection.stored_state import StoredState, chosen_state, states_of
from headrace.checkpoint.manifest import Manifest
from headrace.checkpoint.part_reader import ReadRange
from headrace.checkpoint.stores.opening import read_url_range
from headrace.core.errors import UserError, did_you_mean
from headrace.core.group_ranges import group_span
from headrace.core.ids import HIDDEN_PREFIX
from headrace.core.polars_types import type_of
from headrace.core.source_state import SourceState
from headrace.core.types import TIMESTAMP, Field, Primitive, Schema
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregates.needs import normal_value
from headrace.operators.operator import BAD
from headrace.operators.window.definitions import Cumulate, Sliding
from headrace.state.parquet import dtype_of
from headrace.state.snapshot import RestoredFrame

PIECE_ROWS = 262_144
"""Rows of state, at most about, that a piece of a view is made of."""
POSITIONS = "positions"
"""The name of a source's positions, where a state is named."""

Key = Mapping[str, object]
"""Key column -> value, as Python has it."""


class View(Protocol):
    """A node's state as a table.

    state    name of the state; None: the rows of the step's output
    schema   its columns that have a type of pipelines, without columns of headrace's own
    columns  all columns -> their polars types, in order
    keys     columns by which its rows are found; none: it has no key
    """

    node: str
    state: str | None
    schema: Schema
    columns: Mapping[str, pl.DataType]
    keys: tuple[str, ...]

    @property
    def rows(self) -> int | None:
        """The number of its rows; None: it is not known before they are read."""
        ...

    @property
    def failed(self) -> int:
        """Rows read so far that have no result and are left out, because it does not fit its type."""
        ...

    def pieces(self) -> Iterator[pl.DataFrame]:
        """All rows. Raises ExternalError for files that are damaged or missing."""
        ...

    def of_key(self, key: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The rows of one key. key: one row with all of `keys`, in their types and normal form."""
        ...


def open_view(manifest: Manifest, node: str | None, state: str | None, *, read: ReadRange = read_url_range) -> View:
    """The view of a node (None: the only one) or of one of its states, in a located manifest.

    Raises UserError with the nodes and states that there are, unless exactly one is selected.
    """
    if node in manifest.sources and state in {None, POSITIONS}:
        return Positions(node, manifest.sources[node])
    states = states_of(manifest)
    nodes = dict.fromkeys(each.node for each in states)
    if node is not None and node not in nodes:
        known = (*nodes, *sorted(manifest.sources))
        stateless = "holds no state" if node in manifest.nodes else None
        problem = f"node {node!r} {stateless}" if stateless else f"there is no node {node!r}"
        raise UserError(problem, remedy=did_you_mean(node, known) or f"it has: {', '.join(known) or 'none'}")
    if state is None:
        only = node if node is not None or len(nodes) != 1 else next(iter(nodes))
        own = [each for each in states if each.node == only]
        if only in manifest.definitions and own:
            step = AggregateConfig.defined(only, manifest.definitions[only])
            return StepRows(step, [StateRows(each, read=read) for each in own])
    return KeptRows(StateRows(chosen_state(manifest, node, state), read=read))


def key_row(view: View, key: Key) -> pl.DataFrame:
    """One row with these key columns of a view, in their types and normal form."""
    columns = []
    for name, value in key.items():
        column = pl.Series(name, [value], dtype=view.columns[name])
        columns.append(normal_value(pl.lit(column), view.schema.field(name).type).alias(name))
    return pl.select(columns)


class KeptRows:
    """The rows of one state as they are kept: of one key there may be several."""

    failed = 0

    def __init__(self, rows: StateRows) -> None:
        self._rows = rows
        self.node = rows.stored.node
        self.state: str | None = rows.stored.state
        self.columns: Mapping[str, pl.DataType] = kept_columns(rows.stored)
        self.schema = _known(self.columns)
        self.keys: tuple[str, ...] = rows.stored.keys if rows.is_hashed else ()

    @property
    def rows(self) -> int:
        """As its manifest has it."""
        return self._rows.stored.rows

    def pieces(self) -> Iterator[pl.DataFrame]:
        """In the order of its files."""
        return (self._aligned(frame) for frame in self._rows.pieces())

    def of_key(self, key: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Those of the row groups that can hold the key."""
        return (self._aligned(frame) for frame in self._rows.of_key(key))

    def _aligned(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame with the columns of all files of the state."""
        there = frame.schema
        return frame.select(
            (pl.col(name).cast(dtype) if name in there else pl.lit(None, dtype=dtype)).alias(name)
            for name, dtype in self.columns.items()
        )


def kept_columns(stored: StoredState) -> dict[str, pl.DataType]:
    """The columns of a state over all its files, which may differ in columns and types."""
    frames = [
        pl.DataFrame(schema={name: dtype_of(text) for name, text in handle.columns.items()})
        for handle in stored.handles
    ]
    return dict(pl.concat(frames, how="diagonal_relaxed").schema) if frames else {}


class StepRows:
    """The state of a step as the rows of its output."""

    state: str | None = None

    def __init__(self, step: AggregateConfig, states: Sequence[StateRows]) -> None:
        """states: all that the step wrote."""
        self._step = step
        self._states = states
        self._collected = _Collected()
        self.node = step.node
        self.schema = step.output()
        self.columns: Mapping[str, pl.DataType] = self.schema.polars()
        self.keys = step.keys

    @property
    def rows(self) -> None:
        """Rows of one key are merged first."""
        return None

    @property
    def failed(self) -> int:
        """Rows whose result does not fit its type."""
        return self._collected.failed

    @property
    def hashed(self) -> list[StateRows]:
        """Its states whose rows belong to key groups."""
        return [each for each in self._states if each.is_hashed]

    @property
    def weight(self) -> int:
        """About how many rows of output it is made of."""
        window = self._step.window
        overlap = window.size_ms // window.every_ms if isinstance(window, Sliding | Cumulate) else 1
        return max((each.stored.rows for each in self._states), default=0) * overlap

    def pieces(self) -> Iterator[pl.DataFrame]:
        """By key group, unless its files are of an earlier version: then its state is read at once."""
        for span in spans(self.weight, self.hashed):
            yield from self.of_groups(span)

    def of_groups(self, span: tuple[int, int] | None) -> Iterator[pl.DataFrame]:
        """The rows of the key groups `span` (first, last); None: all rows."""
        return self._emitted(
            {
                each.stored.state: list(each.of_groups(span) if span is not None and each.is_hashed else each.pieces())
                for each in self._states
            }
        )

    def of_key(self, key: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """From the row groups that can hold the key."""
        return self._emitted(
            {each.stored.state: list(each.of_key(key) if each.is_hashed else each.pieces()) for each in self._states}
        )

    def _emitted(self, states: Mapping[str, Sequence[pl.DataFrame]]) -> Iterator[pl.DataFrame]:
        restored = {name: [RestoredFrame(frame) for frame in frames] for name, frames in states.items()}
        self._step.emit_state(restored, self._collected)
        frames, self._collected.frames = self._collected.frames, []
        return (frame.select(self.schema.names) for frame in frames)


def spans(rows: int, states: Sequence[StateRows]) -> list[tuple[int, int] | None]:
    """Ranges of key groups (first, last), by which states are read in pieces of about `PIECE_ROWS` out of `rows` rows;
    [None]: they are read at once.

    states: those whose rows belong to key groups, of one or two manifests.
    """
    groups = {each.stored.max_parallelism for each in states}
    pieces = -(-rows // PIECE_ROWS)
    if pieces <= 1 or len(groups) != 1 or not all(each.is_divided for each in states):
        return [None]
    (max_parallelism,) = groups
    pieces = min(pieces, max_parallelism)
    return [group_span(number, pieces, max_parallelism) for number in range(pieces)]


class Positions:
    """How far a source has been read: one row for each partition."""

    failed = 0
    state: str | None = POSITIONS
    keys: tuple[str, ...] = ("topic", "partition")
    schema = Schema(
        (
            Field("topic", Primitive.STRING, nullable=False),
            Field("partition", Primitive.INT64, nullable=False),
            Field("position", Primitive.INT64, nullable=False),
            Field("finished", Primitive.BOOL, nullable=False),
            Field("max_ts", TIMESTAMP),
        )
    )

    def __init__(self, node: str, source: SourceState) -> None:
        self.node = node
        self.columns: Mapping[str, pl.DataType] = self.schema.polars()
        rows = [
            (each.topic, each.partition, each.position, each.finished, each.max_ts)
            for each in sorted(source.splits, key=lambda split: (split.topic, split.partition))
        ]
        frame = pl.DataFrame(rows, schema={**self.columns, "max_ts": pl.Int64()}, orient="row")
        self._frame = frame.with_columns((pl.col("max_ts") * 1000).cast(self.columns["max_ts"]))

    @property
    def rows(self) -> int:
        """Its partitions."""
        return self._frame.height

    def pieces(self) -> Iterator[pl.DataFrame]:
        """By topic and partition."""
        yield self._frame

    def of_key(self, key: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """One partition."""
        yield self._frame.join(key, on=list(self.keys), how="semi")


class _Collected:
    """Collects a step's output."""

    def __init__(self) -> None:
        self.frames: list[pl.DataFrame] = []
        self.failed = 0

    def emit(self, batch: pl.DataFrame) -> None:
        self.frames.append(batch)

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Rows of side outputs are no state."""

    def count(self, counter: str, rows: int) -> None:
        self.failed += rows if counter == BAD else 0


def _known(columns: Mapping[str, pl.DataType]) -> Schema:
    typed = ((name, type_of(dtype)) for name, dtype in columns.items() if not name.startswith(HIDDEN_PREFIX))
    return Schema(tuple(Field(name, dtype) for name, dtype in typed if dtype is not None))
