from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.batch import O_NODE, ORDER_COLUMNS, ORDER_SCHEMA, TS, WM
from headrace.core.group_ranges import group_span
from headrace.core.keygroups import Hashes, key_groups, key_hash
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.kernels.group import key_hash as hashing
from headrace.kernels.state import key_index
from headrace.state import ordered_buffer, ordered_rows, row_groups
from headrace.state.ordered_buffer import OrderedBuffer, bucket_shift
from headrace.state.ordered_rows import INPUT
from headrace.state.parquet import read_row_groups, write_chunks
from headrace.state.redistribute import share
from headrace.state.row_groups import key_order
from headrace.state.snapshot import RestoredFrame, StateSnapshot

KEYS = ["name", "number"]
VALUES: tuple[dict[str, pl.DataType], ...] = ({"units": pl.Int64()}, {"city": pl.String(), "units": pl.Int64()})
"""The columns of each input beside the keys."""
KEY_SCHEMA: dict[str, pl.DataType] = {"name": pl.String(), "number": pl.Float64()}
COLUMNS: dict[str, pl.DataType] = {**KEY_SCHEMA, **VALUES[0], "city": pl.String(), TS: pl.Int64(), **ORDER_SCHEMA}
MAX_PARALLELISM = 8
SMALL = {
    "ROWS_RECENT_MAX": 8,
    "FRAMES_RECENT_MAX": 3,
    "ROWS_SEALED_MIN": 4,
    "ROWS_PIECE_MIN": 2,
    "PIECES_MAX": 4,
    "SMALL_CHUNKS_MAX": 2,
    "SEALS_SEARCHED": 2,
    "ROWS_SMALL_MAX": 2,
    "ROWS_REWRITTEN_MAX": 3,
    "ROWS_RELEASED_MAX": 3,
    "ROWS_SORTED_MAX": 5,
}


class Row(NamedTuple):
    name: str | None
    number: float | None
    units: int | None
    city: str | None
    ts: int
    node: str
    minor: int
    input: int

    def shown(self) -> str:
        """As text, in which -0.0 is not 0.0, and NaN is NaN."""
        return repr((*self[:5], self.node, "topic", 0, self.minor, 0, self.input))


names = st.sampled_from([None, "", "a", "b", "more than twelve bytes", "x" * 1_000])
numbers = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -math.inf])
drawn = st.tuples(names, numbers, st.integers(-20, 40), st.sampled_from(["orders", "rates"]), st.integers(0, 12))
"""Key, event time, source, and how far the watermark of the row's partition is ahead of that of the operator."""
puts = st.tuples(st.sampled_from([0, 1]), st.lists(drawn, min_size=1, max_size=12))
advances = st.integers(0, 15)
restores = st.sampled_from(["snapshot", "1", "2", "3", "8"])
steps = st.lists(st.one_of(puts, puts, advances, restores), min_size=1, max_size=25)

WAYS = ["kernels", "as in production", "no kernels", "8 bits", "3 bits, no kernels"]


@contextmanager
def ordered_by(way: str) -> Iterator[None]:
    """Small bounds; with kernels or without; hashes of a few bits."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in SMALL.items() if way != "as in production" else ():
            patched.setattr(ordered_rows if name in vars(ordered_rows) else ordered_buffer, name, value)
        for module in (ordered_buffer, key_index, hashing) if "no kernels" in way else ():
            patched.setattr(module, "is_loaded", lambda: False)
        if "bits" in way:
            patched.setattr(row_groups, "key_hash", lambda rows, keys: narrow(key_hash(rows, keys), way))
        yield


def narrow(hashes: Hashes, way: str) -> Hashes:
    """The lowest bits decide the key group, so that subtasks stay what they are: of 3 bits, they are all."""
    return hashes & np.uint64((1 << int(way[0])) - 1)


def place(row: Row, way: str) -> tuple[object, ...]:
    """What a row is sorted by, from definitions."""
    hashes = key_hash(pl.DataFrame([row[:2]], schema=KEY_SCHEMA, orient="row"), KEYS)
    hashed = int((narrow(hashes, way) if "bits" in way else hashes)[0])
    name = (row.name is not None, row.name or "")
    number = row.number
    numbered = (0, 0.0) if number is None else (2, 0.0) if math.isnan(number) else (1, number)
    return hashed % MAX_PARALLELISM, hashed >> 16, name, numbered, row.ts, row.node, row.minor, row.input


def frame(rows: Sequence[tuple[Row, int]], number: int) -> pl.DataFrame:
    """Rows of an input with the watermark of each."""
    columns = {**KEY_SCHEMA, **VALUES[number], TS: pl.Int64(), WM: pl.Int64(), **ORDER_SCHEMA}
    values = {
        **{name: [getattr(row, name) for row, _ in rows] for name in (*KEY_SCHEMA, *VALUES[number])},
        TS: [row.ts for row, _ in rows],
        WM: [wm for _, wm in rows],
        O_NODE: [row.node for row, _ in rows],
        "__o_text": ["topic"] * len(rows),
        "__o_major": [0] * len(rows),
        "__o_minor": [row.minor for row, _ in rows],
        "__o_index": [0] * len(rows),
    }
    return pl.DataFrame(values, schema=columns)


def opened(lateness_ms: int = 0) -> OrderedBuffer:
    return OrderedBuffer("waiting", KEYS, columns=COLUMNS, lateness_ms=lateness_ms, max_parallelism=MAX_PARALLELISM)


class Subtasks:
    """The buffers of all subtasks of a step, beside a list of the rows that must be in them."""

    def __init__(self, way: str, lateness_ms: int, scale: int) -> None:
        self._way = way
        self._lateness_ms = lateness_ms
        self._scale = scale
        self._buffers = [opened(lateness_ms)]
        self._numbers: list[dict[int, pl.DataFrame]] = [{}]
        self._counts = [0, 0]
        self._watermark = -30 * scale
        self.waiting: list[Row] = []

    def put(self, number: int, batch: Sequence[tuple[str | None, float | None, int, str, int]]) -> None:
        rows = []
        for name, value, time, node, ahead in batch:
            # places are those of the other input, in another order than that of arrival
            minor = self._counts[number] * 7 % 1_009
            self._counts[number] += 1
            city = f"city {minor} of input {number}" if number else None
            row = Row(name, value, minor, city, time * self._scale, node, minor, number)
            rows.append((row, self._watermark + ahead * self._scale))
        groups = key_groups(frame(rows, number), KEYS, MAX_PARALLELISM)
        for subtask, buffer in enumerate(self._buffers):
            first, last = group_span(subtask, len(self._buffers), MAX_PARALLELISM)
            own = [pair for pair, group in zip(rows, groups, strict=True) if first <= group <= last]
            late = [(row, wm) for row, wm in own if row.ts + self._lateness_ms <= wm]
            assert buffer.put(frame(own, number), number).equals(frame(late, number)), "rows that are late come back"
            self.waiting += [row for row, wm in own if row.ts + self._lateness_ms > wm]
        assert self.rows == len(self.waiting)

    @property
    def rows(self) -> int:
        return sum(buffer.rows for buffer in self._buffers)

    def advance(self, watermark: int) -> None:
        self._watermark = watermark
        due = [row for row in self.waiting if row.ts <= watermark - self._lateness_ms or watermark == TIME_MAX]
        self.waiting = [row for row in self.waiting if row not in due]
        frames = [each for buffer in self._buffers for each in buffer.due(watermark)]
        assert all(each.schema == {**COLUMNS, INPUT: pl.Int16()} for each in frames)
        rows = [repr(values) for each in frames for values in shown(each).rows()]
        assert rows == [row.shown() for row in sorted(due, key=lambda row: place(row, self._way))]
        self._require_bounds(frames)

    def _require_bounds(self, frames: Sequence[pl.DataFrame]) -> None:
        seen: set[str] = set()
        for each in frames:
            found = {repr(values) for values in each.select("name", pl.col("number") + 0.0, TS).rows()}
            assert not found & seen, "rows of a key and time come together"
            seen |= found
            assert 0 < each.height <= ordered_rows.ROWS_RELEASED_MAX or len(found) == 1

    def move(self, by: int) -> None:
        self.advance(self._watermark + by * self._scale)

    def snapshot(self) -> list[list[StateSnapshot]]:
        states = [buffer.snapshot() for buffer in self._buffers]
        for (rows, _), seen in zip(states, self._numbers, strict=True):
            for chunk in rows.chunks:
                assert seen.setdefault(chunk.id, chunk.frame).equals(chunk.frame), "a number means the same rows"
        assert sum(rows.rows for rows, _ in states) == len(self.waiting)
        return states

    def restore(self, parallelism: int) -> None:
        """As from state files."""
        states = self.snapshot()
        stored: dict[str, list[pl.DataFrame]] = {}
        for state in (state for own in states for state in own):
            files = write_chunks(state.chunks, key_order(state, MAX_PARALLELISM))
            stored.setdefault(state.name, []).extend(rows for file in files for rows in read_row_groups(file.data))
        self._buffers = [opened(self._lateness_ms) for _ in range(parallelism)]
        self._numbers = [{} for _ in range(parallelism)]
        for subtask, buffer in enumerate(self._buffers):
            buffer.restore(
                {
                    state.name: [
                        RestoredFrame(share(rows, state.kind, state.keys, subtask, parallelism, MAX_PARALLELISM))
                        for rows in stored.get(state.name, [])
                    ]
                    for state in states[0]
                }
            )
            assert buffer.watermark in (self._watermark, TIME_MIN)
        assert self.rows == len(self.waiting)


def shown(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(*KEYS, "units", "city", TS, *ORDER_COLUMNS, INPUT)


@pytest.mark.parametrize("way", WAYS)
@given(steps, st.sampled_from([0, 3]), st.sampled_from([1, 1_000]))
def test_releases_are_sorted_rows(way: str, steps: Sequence[object], lateness: int, scale: int) -> None:
    with ordered_by(way):
        subtasks = Subtasks(way, lateness * scale, scale)
        for step in steps:
            match step:
                case (int(number), list(batch)):
                    subtasks.put(number, batch)
                case int(by):
                    subtasks.move(by)
                case "snapshot":
                    subtasks.snapshot()
                case str(parallelism):
                    subtasks.restore(int(parallelism))
        subtasks.advance(TIME_MAX)
        assert subtasks.rows == len(subtasks.waiting) == 0


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-99, 99), min_size=1), st.integers(2, 9))
def test_buckets_are_the_narrowest_that_are_few(drawn: list[int], count: int) -> None:
    times = sorted(drawn)
    shift = bucket_shift(np.array(times), count)
    assert len({time >> shift for time in times}) <= count
    assert shift == 0 or len({time >> shift - 1 for time in times}) > count
