"""Aggregates rows by key, exactly and independently of the order of rows: `c/group/group_by.c`.

A `GroupTable` has one row per distinct key of the added rows, in the order in which the keys first appeared. `take`
returns these rows as a frame and empties the table. The semantics are those of polars' `group_by` with `count`, `sum`,
`min`, `max` and `nan_max`; sums of floats are exact, as limbs (`operators.aggregates.exact.limbs`).

The kernel allocates the table's memory and frees it with the object. The owner of a table bounds its `size_bytes`.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import Form, key_form, stream_address, value_form
from headrace.kernels.buffer_frame import BufferColumn, buffer_column, buffer_frame
from headrace.kernels.library import Kernel, kernel

KEYS_MAX = 8
PANES_MAX = 8
"""Most tables to which one call adds a batch."""
TEXT_BYTES_MAX = 1 << 30
LIMB_BYTES_MAX = 256 << 20
"""Bytes of the limbs of all tables that a batch is added to. Groups have equally many limbs, so that one value far from
the others costs each group memory."""
LIMB_BITS = 32
_LIMBS_MAX = 160
_PLACES_MAX = 64
"""Most sets of columns whose places are cached."""
_INT64 = (pa.int64(), 8)
_OTHERS = ("nan", "pinf", "ninf")


class Action(IntEnum):
    """`enum action`: the aggregate function. SUM: int64 for int64, int128 for other integers; SUM_WIDE: int128 for
    int64; LIMBS and SQUARES: exact sums of floats and of their squares."""

    COUNT_ROWS = 0
    COUNT = 1
    SUM = 2
    SUM_WIDE = 3
    LIMBS = 4
    SQUARES = 5
    MIN = 6
    MAX = 7


class _Status(IntEnum):
    ADDED = 0
    FULL = 1
    NO_MEMORY = 2
    UNFIT = 3


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the key. Floats must be in normal form: one zero, one NaN."""

    name: str
    dtype: pl.DataType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function of one column.

    column   the input column, of type `dtype`; None for COUNT_ROWS
    name     the output column. LIMBS and SQUARES have the output columns `<name>.e<k>`, `<name>.nan`, `<name>.pinf` and
             `<name>.ninf`, without those that are 0 in all groups
    """

    action: Action
    name: str
    column: str | None = None
    dtype: pl.DataType | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """The key columns and aggregates of a `GroupTable`."""

    keys: tuple[KeyColumn, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """The input column of each key and each aggregate."""
        return (*(key.name for key in self.keys), *(made.column for made in self.aggregates))


class _Pane(ctypes.Structure):
    _fields_ = (("table", ctypes.c_void_p), ("begin", ctypes.c_int64), ("end", ctypes.c_int64))


class _Add(ctypes.Structure):
    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("columns", ctypes.c_void_p),
        ("time_column", ctypes.c_int64),
        ("pane_count", ctypes.c_int64),
        ("panes", _Pane * PANES_MAX),
        ("groups", ctypes.c_void_p),
        ("groups_written", ctypes.c_int64),
        ("is_open", ctypes.c_int64),
        ("row", ctypes.c_int64),
        # struct arrow_array
        ("array", ctypes.c_int64 * 10),
    )


class _MadeDescription(ctypes.Structure):
    _fields_ = (
        ("nulls", ctypes.c_int64),
        ("low", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("has_others", ctypes.c_int64),
        ("is_used", ctypes.c_uint8 * _LIMBS_MAX),
    )


class _Description(ctypes.Structure):
    _fields_ = (
        ("groups", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("text_bytes", ctypes.c_int64),
        ("key_nulls", ctypes.c_int64 * KEYS_MAX),
        ("made", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class _Functions:
    new: Kernel
    free: Kernel
    reset: Kernel
    add: Kernel
    abandon: Kernel
    size: Kernel
    describe: Kernel
    write: Kernel


def _functions() -> _Functions:
    address, number = ctypes.c_void_p, ctypes.c_int64
    return _Functions(
        new=kernel("headrace_groups_new", address, address, number, address, number, address, number, number),
        free=kernel("headrace_groups_free", None, address),
        reset=kernel("headrace_groups_reset", None, address),
        add=kernel("headrace_groups_add", number, address),
        abandon=kernel("headrace_groups_abandon", None, address),
        size=kernel("headrace_groups_size", None, address, address),
        describe=kernel("headrace_groups_describe", number, address, address, number, address),
        write=kernel("headrace_groups_write", None, address, address, number, address, address, address),
    )


class GroupTable:
    """The groups of the rows added since the last `take`. Used by one thread at a time."""

    def __init__(
        self, grouping: Grouping, *, text_bytes_max: int = TEXT_BYTES_MAX, limb_bytes_max: int = LIMB_BYTES_MAX
    ) -> None:
        """Raises MemoryError. The grouping's types have forms (`key_form`, `value_form`), and at most KEYS_MAX keys.

        text_bytes_max   bytes that one frame of `take` has of the texts of keys
        limb_bytes_max   bytes of limbs in the tables of one batch, beyond which their groups are moved to frames
        """
        functions = _functions()
        self.grouping = grouping
        self._functions = functions
        forms = [form for key in grouping.keys if (form := key_form(key.dtype)) is not None]
        assert len(forms) == len(grouping.keys), f"keys of {grouping} have forms"
        made = [word for item in grouping.aggregates for word in (item.action, _form_of(item))]
        self._table = functions.new(
            (ctypes.c_int64 * len(forms))(*forms),
            len(forms),
            (ctypes.c_int64 * len(made))(*made),
            len(grouping.aggregates),
            os.urandom(16),
            text_bytes_max,
            limb_bytes_max,
        )
        if not self._table:
            raise MemoryError(f"no memory for a table of groups, or none is made for {grouping}")
        # not at exit: a daemon thread may be adding rows still
        weakref.finalize(self, functions.free, self._table).atexit = False
        self._sizes = (ctypes.c_int64 * 3)()
        self._key_columns = [_column(key.name, key.dtype) for key in grouping.keys]
        self._made_columns = [
            None if item.action in (Action.LIMBS, Action.SQUARES) else _column(item.name, _made_type(item))
            for item in grouping.aggregates
        ]
        self._full: list[pl.DataFrame] = []
        self._places: dict[tuple[str, ...], ctypes.Array[ctypes.c_int64]] = {}

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self._size(0)

    @property
    def rows(self) -> int:
        """The number of rows added since the last `take`."""
        return self._size(1)

    @property
    def is_empty(self) -> bool:
        """Whether `take` would return no frame."""
        return not (self._full or self.rows)

    @property
    def size_bytes(self) -> int:
        """The memory that the table holds, with the frames that `take` is going to return."""
        return self._size(2) + sum(int(frame.estimated_size()) for frame in self._full)

    def _size(self, index: int) -> int:
        self._functions.size(self._table, ctypes.addressof(self._sizes))
        return self._sizes[index]

    def add(self, frame: pl.DataFrame) -> None:
        """Adds rows. The frame may lack input columns of aggregates, which then stay unchanged. Raises MemoryError."""
        add_placed(frame, None, [(self, 0, 0)])

    def add_numbered(self, frame: pl.DataFrame) -> npt.NDArray[np.uint32] | None:
        """Adds rows; returns the group of each of them, for `groups_of`, until the next `take`: uint32[n]. None if the
        table was full: groups have other numbers now. Raises MemoryError."""
        numbers = np.empty(frame.height, dtype=np.uint32)
        add_placed(frame, None, [(self, 0, 0)], numbers.ctypes.data)
        return None if self._full else numbers

    def groups_of(self, numbers: npt.NDArray[np.uint32]) -> pl.DataFrame:
        """The groups with these numbers, in this order. Raises MemoryError."""
        return self._described(numbers.ctypes.data, len(numbers))[1]

    def take(self) -> list[pl.DataFrame]:
        """The groups as frames, and empties the table. It is one frame, unless the table was full in between, and none
        without rows. Raises MemoryError."""
        self._empty()
        frames, self._full = self._full, []
        return frames

    def places(self, columns: tuple[str, ...]) -> ctypes.Array[ctypes.c_int64]:
        """The indices of the grouping's input columns in frames with these columns; -1 for an absent column."""
        places = self._places.get(columns)
        if places is None:
            if len(self._places) >= _PLACES_MAX:
                self._places.clear()
            index = {name: place for place, name in enumerate(columns)}
            found = [-1 if name is None else index.get(name, -1) for name in self.grouping.inputs]
            places = self._places[columns] = (ctypes.c_int64 * len(found))(*found)
        return places

    def clear(self) -> None:
        """Removes all groups; the memory stays allocated."""
        self._full.clear()
        self._functions.reset(self._table)

    def _empty(self) -> None:
        rows, frame = self._described(None, 0)
        if rows:
            self._full.append(frame)
        self._functions.reset(self._table)

    def _described(self, chosen: int | None, count: int) -> tuple[int, pl.DataFrame]:
        """The number of rows added, and the groups at `chosen`, an address of uint32[count]; None: all groups."""
        made = (_MadeDescription * len(self.grouping.aggregates))()
        description = _Description(made=ctypes.addressof(made))
        if not self._functions.describe(self._table, chosen, count, ctypes.addressof(description)):
            raise MemoryError("no memory for the limbs of exact sums")
        groups: int = description.groups
        text = pa.allocate_buffer(description.text_bytes)
        writer = _Writer(groups, text if description.text_bytes else None)
        for column, nulls in zip(self._key_columns, description.key_nulls, strict=False):
            writer.column(column, has_nulls=nulls > 0)
        for item, made_column, found in zip(self.grouping.aggregates, self._made_columns, made, strict=True):
            if made_column is not None:
                writer.column(made_column, has_nulls=found.nulls > 0)
                continue
            for place in range(found.width):
                if found.is_used[place]:
                    writer.column(BufferColumn(f"{item.name}.e{(found.low + place) * LIMB_BITS}", *_INT64))
            for name in _OTHERS if found.has_others else ():
                writer.column(BufferColumn(f"{item.name}.{name}", *_INT64))
        targets = writer.targets()
        addresses = ctypes.addressof(description), ctypes.addressof(targets), text.address
        self._functions.write(self._table, chosen, count, *addresses)
        return description.rows, writer.frame()


def add_placed(
    frame: pl.DataFrame, time: str | None, panes: Sequence[tuple[GroupTable, int, int]], numbers: int | None = None
) -> None:
    """Adds rows to tables of one grouping by time: each row to the table with begin <= time < end, if there is one.

    time     the column with the times, Int64; None: there is only one table, which receives all rows
    panes    (table, begin, end), at most PANES_MAX
    numbers  address of uint32[n] for the group number of each row; only if `time` is None

    Raises MemoryError; afterwards the tables are unusable.
    """
    tables = [table for table, _, _ in panes]
    grouping, functions = tables[0].grouping, tables[0]._functions
    names = frame.columns
    columns = tables[0].places(tuple(names))
    capsule = frame.__arrow_c_stream__()
    state = _Add(stream_address(capsule), ctypes.addressof(columns), -1 if time is None else names.index(time))
    state.pane_count, state.groups = len(panes), numbers
    for index, (table, begin, end) in enumerate(panes):
        state.panes[index] = _Pane(table._table, begin, end)
    address = ctypes.addressof(state)
    try:
        while (status := functions.add(address)) == _Status.FULL:
            if not any(table.groups for table in tables):
                raise MemoryError("the keys of one row have more text than fits into one frame")
            for table in tables:
                table._empty()
    finally:
        functions.abandon(address)
    if status == _Status.NO_MEMORY:
        held = sum(table.size_bytes for table in tables)
        raise MemoryError(f"no memory for more groups: the tables of this batch hold {held:,} bytes")
    assert status == _Status.ADDED, f"{frame.schema} does not have the input columns of {grouping}"


def _form_of(item: Aggregate) -> Form:
    if item.action in (Action.COUNT, Action.COUNT_ROWS) or item.dtype is None:
        return Form.ANY
    return value_form(item.dtype)


def _made_type(item: Aggregate) -> pl.DataType:
    if item.action in (Action.MIN, Action.MAX):
        assert item.dtype is not None, "extremes have their column's type"
        return item.dtype
    if item.action is Action.SUM_WIDE or (item.action is Action.SUM and item.dtype != pl.Int64):
        return pl.Int128()
    return pl.Int64()


def _column(name: str, dtype: pl.DataType) -> BufferColumn:
    column = buffer_column(name, dtype)
    assert column is not None, f"group tables have no output of type {dtype}"
    return column


class _Writer:
    """The memory of a frame's columns, which the kernel fills."""

    def __init__(self, rows: int, text: pa.Buffer | None) -> None:
        self._rows = rows
        self._text = [] if text is None else [text]
        self._columns: list[BufferColumn] = []
        self._buffers: list[list[pa.Buffer | None]] = []
        self._addresses: list[int] = []

    def column(self, column: BufferColumn, *, has_nulls: bool = False) -> None:
        """Allocates the next column."""
        valid = pa.allocate_buffer((self._rows + 7) // 8) if has_nulls else None
        values = pa.allocate_buffer(self._rows * column.width)
        self._columns.append(column)
        self._buffers.append([valid, values, *(self._text if column.is_text else ())])
        self._addresses += (values.address, 0 if valid is None else valid.address)

    def targets(self) -> ctypes.Array[ctypes.c_int64]:
        """Addresses of values and validity of each column: `target_t`."""
        return (ctypes.c_int64 * max(1, len(self._addresses)))(*self._addresses)

    def frame(self) -> pl.DataFrame:
        """The frame, once the columns are written."""
        return buffer_frame(self._rows, self._columns, self._buffers)
