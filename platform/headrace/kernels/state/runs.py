"""Keyed state as sorted, immutable runs of columns: rows found by key, gathered, and merged: `c/state`.

A run is one frame with the words of its rows, ascending: the hashes of their keys, or what orders them alike. Equal
keys have equal words; a lookup reads the directory, then the words, then compares the keys. A place is the index of a
run in the sequence that a call receives, and a row of that run.

Runs never change, so threads may share them. Without kernels the callers use polars.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_void_p
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import key_form, stream_address
from headrace.kernels.buffer_frame import BufferColumn, buffer_column, buffer_frame
from headrace.kernels.library import Kernel, is_loaded, kernel

Words = npt.NDArray[np.uint64]
RunNumbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.uint32]

KEYS_MAX = 8
MERGED_RUNS_MAX = 32
_TEXT_BYTES_MAX = (1 << 31) - 1
"""Bytes of long texts in a column that the kernel gathers: views refer to them with 31 bits."""
_HUGE_PAGE_BYTES = 2 << 20
_MATCHES_EACH = 2
"""Matches of an asked row that `find_all` first has room for, on average."""
_FIND_ARGUMENTS = (c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_int64)
_GATHER_ARGUMENTS = (c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int64)
_TEXTS_ARGUMENTS = (c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p)
_NO_MEMORY = -2


class _Status(IntEnum):
    OPEN = 0
    NO_MEMORY = 1
    UNFIT = 2


class RunColumns:
    """Rows of one immutable frame, held for lookups: the kernel compares key columns and gathers all columns.

    frame       the rows, in one chunk
    keys        the names of the key columns
    places      the index of each column
    columns     each column as the kernel gathers it; None for a type that it leaves to polars
    handle      the kernel's run
    size_bytes  memory of the directory and the handle, beside the frame
    """

    def __init__(self, frame: pl.DataFrame, keys: Sequence[str], words: Words | None) -> None:
        """Raises MemoryError. The key columns have types that `fits` accepts.

        words   of each row, ascending; None: the rows are only gathered
        """
        assert words is None or len(words) == frame.height, f"{frame.height} rows have a word each"
        self.frame = _one_chunk(frame)
        self._words = None if words is None else np.ascontiguousarray(words, np.uint64)
        self.keys = tuple(keys)
        self.places = {name: place for place, name in enumerate(frame.columns)}
        self.columns = {name: buffer_column(name, dtype) for name, dtype in frame.schema.items()}
        self.handle = self._opened()
        free = kernel("headrace_run_free", None, c_void_p)
        # not at exit: a daemon thread may read the run still
        weakref.finalize(self, free, self.handle).atexit = False
        self.size_bytes: int = kernel("headrace_run_bytes", c_int64, c_void_p)(self.handle)

    def _opened(self) -> int:
        places = _places(self.frame, self.keys)
        words = None if self._words is None else self._words.ctypes.data
        status = c_int64()
        capsule = self.frame.__arrow_c_stream__()
        opening = kernel("headrace_run_open", c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p)
        handle: int | None = opening(
            stream_address(capsule), places, len(places), words, self.frame.height, ctypes.addressof(status)
        )
        if status.value == _Status.NO_MEMORY:
            raise MemoryError(f"no memory for the directory of a run of {self.frame.height:,} rows")
        assert handle is not None, f"{self.keys} of {self.frame.schema} are keys, and the words are ascending"
        return handle


def fits(schema: Mapping[str, pl.DataType], keys: Sequence[str]) -> bool:
    """Whether kernels are loaded and compare keys of these types. Floats must be in normal form: one zero, one NaN."""
    return is_loaded() and 0 < len(keys) <= KEYS_MAX and all(key_form(schema[key]) is not None for key in keys)


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """Keys to find: few runs are looked at for each where they are sorted by word.

    words   of each key
    frame   has the key columns, with the types that the runs have; NULL equals NULL
    order   the row of each key in the frame: uint32[n]; None: their own
    """

    words: Words
    frame: pl.DataFrame
    order: Rows | None = None


def find(runs: Sequence[RunColumns], asked: AskedKeys) -> tuple[RunNumbers, Rows]:
    """The first run that has each asked key, and the row in it: int32[n], uint32[n]; -1 and 0 for no run."""
    run, row = np.full(len(asked.words), -1, np.int32), np.zeros(len(asked.words), np.uint32)
    finding = kernel("headrace_run_find", c_int64, *_FIND_ARGUMENTS, c_void_p, c_void_p)
    _call(finding, runs, asked, run.ctypes.data, row.ctypes.data)
    return run, row


def find_all(runs: Sequence[RunColumns], asked: AskedKeys) -> tuple[Rows, RunNumbers, Rows]:
    """All rows of all runs that have the asked keys, as (row of the key in the frame, run, row), by key, then by run:
    uint32[m], int32[m], uint32[m]. Raises MemoryError."""
    finding = kernel("headrace_run_find_all", c_int64, *_FIND_ARGUMENTS, c_int64, c_void_p, c_void_p, c_void_p)
    room = _MATCHES_EACH * len(asked.words)
    while True:
        asked_row, run, row = np.empty(room, np.uint32), np.empty(room, np.int32), np.empty(room, np.uint32)
        found = _call(finding, runs, asked, room, asked_row.ctypes.data, run.ctypes.data, row.ctypes.data)
        if found <= room:
            return asked_row[:found], run[:found], row[:found]
        room = found


def _call(finding: Kernel, runs: Sequence[RunColumns], asked: AskedKeys, *outputs: int) -> int:
    """The number of rows that `finding` finds."""
    words, frame = np.ascontiguousarray(asked.words, np.uint64), _one_chunk(asked.frame)
    order = None if asked.order is None else np.ascontiguousarray(asked.order, np.uint32)
    assert len(words) == frame.height, f"{frame.height} asked rows have a word each"
    assert order is None or len(order) == len(words), f"{len(order)} of {len(words)} keys have a row"
    if not runs or not len(words):
        return 0
    keys = runs[0].keys
    capsule = frame.__arrow_c_stream__()
    places = None if order is None else order.ctypes.data
    arguments = words.ctypes.data, places, stream_address(capsule), _places(frame, keys), len(words)
    found: int = finding(_handles(runs), len(runs), *arguments, *outputs)
    if found == _NO_MEMORY:
        raise MemoryError(f"no memory to find keys in {len(runs)} runs")
    assert found >= 0, f"{frame.schema} has the keys {keys} of all runs, and their types; all runs have words"
    return found


def gather(runs: Sequence[RunColumns], run: RunNumbers, row: Rows, columns: Sequence[str]) -> pl.DataFrame:
    """The rows at these places, in this order, with these columns. All runs have the same columns in the same order.

    Run -1 is a row of NULLs. At least one run. Raises MemoryError.
    """
    made = _gathered(runs, np.ascontiguousarray(run, np.int32), np.ascontiguousarray(row, np.uint32), columns)
    if made.width == len(columns):
        return made
    names = set(made.columns)
    others = _gathered_by_polars(runs, run, row, [name for name in columns if name not in names])
    return pl.DataFrame([(made if name in names else others).get_column(name) for name in columns])


def _gathered(runs: Sequence[RunColumns], run: RunNumbers, row: Rows, columns: Sequence[str]) -> pl.DataFrame:
    """Those of the columns that the kernel gathers."""
    assert len(run) == len(row), "a place is a run and a row"
    count, first = len(run), runs[0]
    known = [(first.places[name], column) for name in columns if (column := first.columns[name]) is not None]
    values = [_buffer(count * column.width) for _, column in known]
    valid = [_buffer((count + 7) // 8) for _ in known]
    # `gathered_t`
    fields: list[int] = []
    for (place, column), to, bits in zip(known, values, valid, strict=True):
        fields += place, column.width, column.is_text, to.address, bits.address, 0, 0
    state, handles, numbers = (c_int64 * len(fields))(*fields), _handles(runs), run.ctypes.data
    gathering = kernel("headrace_run_gather", c_int64, *_GATHER_ARGUMENTS)
    status: int = gathering(handles, len(runs), numbers, row.ctypes.data, count, state, len(known))
    if status == _NO_MEMORY:
        raise MemoryError(f"no memory to gather rows of {len(runs)} runs")
    assert status == 0, f"rows are inside of their runs, which have {[column.name for _, column in known]} alike"
    taken: list[BufferColumn] = []
    buffers: list[list[pa.Buffer | None]] = []
    for (place, column), to, bits, nulls, text_bytes in zip(
        known, values, valid, state[5::7], state[6::7], strict=True
    ):
        if text_bytes > _TEXT_BYTES_MAX:
            continue
        taken.append(column)
        buffers.append([bits if nulls else None, to])
        if text_bytes:
            text = _buffer(text_bytes)
            copying = kernel("headrace_run_gather_texts", None, *_TEXTS_ARGUMENTS)
            copying(handles, place, numbers, count, to.address, text.address)
            buffers[-1].append(text)
    return buffer_frame(count, taken, buffers)


def _buffer(size: int) -> pa.Buffer:
    """Memory to write. Arrow's own allocator takes it by huge pages, of which the first touch of one costs milliseconds
    on a virtual machine: fine for a merge beside the step, too long for a few rows that are sealed or looked up."""
    return pa.allocate_buffer(size, memory_pool=pa.system_memory_pool() if size < _HUGE_PAGE_BYTES else None)


def _gathered_by_polars(runs: Sequence[RunColumns], run: RunNumbers, row: Rows, columns: Sequence[str]) -> pl.DataFrame:
    """The rows at these places: those of each run gathered together, then put in order."""
    order = np.argsort(run, kind="stable")
    by_run, by_row = run[order], row[order]
    pieces = [runs[0].frame.select(columns).clear(int(np.searchsorted(by_run, 0)))]
    for number in np.unique(by_run[by_run >= 0]):
        begin, end = np.searchsorted(by_run, [number, number + 1])
        pieces.append(runs[number].frame.select(columns)[pl.Series(by_row[begin:end])])
    inverse = np.empty(len(order), np.uint32)
    inverse[order] = np.arange(len(order), dtype=np.uint32)
    return pl.concat(pieces)[pl.Series(inverse)]


def merge_order(runs: Sequence[RunColumns], *, unique: bool) -> tuple[RunNumbers, Rows]:
    """The order of all rows of at most MERGED_RUNS_MAX runs, merged by word: int32[m], uint32[m]. Raises MemoryError.

    Rows with equal words are in the order of their runs. unique: of rows with equal keys, only those of the first run.
    """
    assert len(runs) <= MERGED_RUNS_MAX, f"{len(runs)} runs are merged"
    rows = sum(run.frame.height for run in runs)
    run, row = np.empty(rows, np.int32), np.empty(rows, np.uint32)
    if not rows:
        return run, row
    merging = kernel("headrace_run_merge_order", c_int64, c_void_p, c_int64, c_int64, c_void_p, c_void_p)
    count: int = merging(_handles(runs), len(runs), int(unique), run.ctypes.data, row.ctypes.data)
    assert count >= 0, f"runs that are merged have words, and keys {runs[0].keys} of equal types"
    return run[:count], row[:count]


def _one_chunk(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.rechunk() if max(frame.n_chunks("all"), default=1) > 1 else frame


def _places(frame: pl.DataFrame, names: Sequence[str]) -> ctypes.Array[c_int64]:
    return (c_int64 * len(names))(*map(frame.columns.index, names))


def _handles(runs: Sequence[RunColumns]) -> ctypes.Array[c_void_p]:
    return (c_void_p * len(runs))(*(run.handle for run in runs))
