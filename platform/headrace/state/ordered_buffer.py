"""The ordered buffer: rows that wait for the watermark, released key by key in the total order.

    put(rows, input)     takes the rows that are on time, in any order; returns the late ones
    due(watermark)       the rows with event time <= watermark - allowed lateness, which leave the buffer
    snapshot(), restore  all rows that wait, as numbered chunks, and the watermark

A release is sorted by (key group, upper 48 bits of the key's hash, key, event time, place, input): see `KeyOrder` and
`core.batch` for the two ends of that. So a key's rows come one after the other, in their order, and rows of one key and
time come in one frame. Neither batches nor snapshots nor the parallelism that wrote a snapshot changes a key's rows.

Rows lie in buckets of event time. A release takes whole buckets, and cuts those that it ends in. A number means the
same rows for the life of the buffer, so that a checkpoint writes only what is new: a chunk gets another number only if
a cut released some of its rows, or if its bucket is divided or has many small chunks.

This module must not know operators: the caller sends late rows on, and forwards watermark - allowed lateness.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.batch import OP, ORDER_COLUMNS, TS, WM
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.kernels.library import is_loaded
from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order
from headrace.state.row_groups import ROW_GROUP_ROWS_MAX, KeyOrder
from headrace.state.snapshot import Chunk, RestoredStates, StateKind, StateSnapshot

INPUT = "__input"
"""Column of rows in the buffer: the number of the input that they came by."""
WATERMARK = "watermark"
"""Column of the state beside the rows."""
ROWS_RECENT_MAX = 32_768
"""Recent rows that are sealed: few enough that a snapshot, which seals them, does not delay the barrier."""
FRAMES_RECENT_MAX = 64
"""Recent frames that become one frame, or are sealed."""
ROWS_SEALED_MIN = 16_384
"""Fewer recent rows are sealed by a snapshot only: their times say too little about the width of buckets."""
PIECES_MAX = 16
"""Buckets that recent rows are divided into."""
ROWS_PIECE_MIN = 2_048
"""Rows of a bucket on average, if that makes fewer buckets, but two."""
SMALL_CHUNKS_MAX = 32
"""Chunks of a bucket, smaller than a row group, that are sealed again together."""
ROWS_REWRITTEN_MAX = 65_536
"""Rows of a bucket that a snapshot may number anew after a cut. A bucket with more is divided."""
ROWS_RELEASED_MAX = 32_768
"""Rows of a released frame, unless more rows have one key and one time."""
ROWS_SORTED_MAX = 1 << 21
"""About the most rows of a release that are sorted together, unless more rows have one key."""

Times = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_SAMPLED_ROWS = 1 << 16
_RUN, _AT = "__run", "__at"
_SIGN = np.uint64(1 << 63)


class OrderedBuffer:
    """The waiting rows of one operator. Used by one thread.

    Rows have `__ts`, the order columns and, if one of them may be late, `__wm`. Inputs may have different columns. A
    released row has those of all inputs, NULL where its input lacks one (`__op`: False), then INPUT. It has
    no `__wm`: what leaves an ordered operator is never late.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        *,
        columns: Mapping[str, pl.DataType],
        lateness_ms: int,
        max_parallelism: int,
    ) -> None:
        """The buffer is empty.

        name         of the state
        keys         the key columns, which all inputs have; none: all rows have one key
        columns      all columns to keep, in the order of released rows: `__ts`, order columns, those of any input
        lateness_ms  the allowed lateness
        """
        self._name = name
        self._columns = {**columns, INPUT: pl.Int16()}
        self._keys = tuple(keys)
        self._lateness_ms = lateness_ms
        self._order = KeyOrder(self._keys, max_parallelism)
        self._watermark = TIME_MIN
        self._released = TIME_MIN
        self._rows = 0
        self._recent: dict[tuple[str, ...], list[pl.DataFrame]] = {}
        self._recent_rows = 0
        self._recent_frames = 0
        self._recent_first = TIME_MAX
        self._buckets: dict[_Bucket, list[_Chunk]] = {}
        self._by_begin: list[_Bucket] = []
        self._cut: set[_Bucket] = set()
        self._divided: dict[_Bucket, int] = {}
        self._numbers = itertools.count()
        self._time: Chunk | None = None

    @property
    def watermark(self) -> int:
        """The greatest watermark that `due` received, also before a restore."""
        return self._watermark

    @property
    def rows(self) -> int:
        """The number of rows that wait."""
        return self._rows

    @property
    def bytes(self) -> int:
        """Memory of the rows, about; with released rows of buckets that a release has cut."""
        recent = sum(frame.estimated_size() for frames in self._recent.values() for frame in frames)
        return int(recent) + sum(chunk.size_bytes for chunks in self._buckets.values() for chunk in chunks)

    # ---- rows in -----------------------------------------------------------------------------------------------------

    def put(self, rows: pl.DataFrame, number: int) -> pl.DataFrame:
        """Takes the rows of input `number` that are on time; returns those with `__ts` + lateness <= `__wm`."""
        times = _times(rows)
        late = rows.clear()
        if WM in rows.columns:
            is_late = times + self._lateness_ms <= rows.get_column(WM).to_numpy()
            if is_late.any():
                late, rows = rows.filter(pl.Series(is_late)), rows.filter(pl.Series(~is_late))
                times = times[~is_late]
        if rows.height:
            first = int(times.min())
            assert first > self._released, f"a row at {first} ms comes after the release of {self._released} ms"
            self._divide()
            self._add(rows.with_columns(pl.lit(number, dtype=pl.Int16).alias(INPUT)))
        return late

    def _add(self, rows: pl.DataFrame) -> None:
        self._rows += rows.height
        self._add_recent(rows.select([name for name in self._columns if name in rows.columns]))

    def _add_recent(self, rows: pl.DataFrame) -> None:
        self._recent.setdefault(tuple(rows.columns), []).append(rows)
        self._recent_rows += rows.height
        self._recent_frames += 1
        self._recent_first = min(self._recent_first, int(_times(rows).min()))
        if self._recent_rows >= ROWS_RECENT_MAX or self._recent_frames > FRAMES_RECENT_MAX:
            self._settle()

    def _settle(self) -> None:
        """Seals the recent rows, or makes one frame of them where they are few."""
        if self._recent_rows >= ROWS_SEALED_MIN:
            self._seal()
            return
        for frames in self._recent.values():
            frames[:] = [_one(frames)]
        self._recent_frames = len(self._recent)

    def _seal(self) -> None:
        """Moves the recent rows to chunks of their buckets, sorted by time."""
        for frames in self._recent.values():
            for bucket, rows in _pieces(_one(frames)):
                self._append(bucket, rows)
        self._recent.clear()
        self._recent_rows, self._recent_frames, self._recent_first = 0, 0, TIME_MAX

    def _append(self, bucket: _Bucket, rows: pl.DataFrame) -> None:
        chunks = self._buckets.get(bucket)
        if chunks is None:
            chunks = self._buckets[bucket] = []
            heapq.heappush(self._by_begin, bucket)
        chunks.append(_Chunk(next(self._numbers), rows))
        if sum(chunk.frame.height < ROW_GROUP_ROWS_MAX for chunk in chunks) > SMALL_CHUNKS_MAX:
            self._divided.setdefault(bucket, ROW_GROUP_ROWS_MAX)

    def _divide(self) -> None:
        """Seals rows of marked buckets again: a snapshot, which marks them, must not wait for that."""
        marked, self._divided = self._divided, {}
        for bucket, rows_max in marked.items():
            chunks = self._buckets.pop(bucket, [])
            kept = [chunk for chunk in chunks if chunk.frame.height >= rows_max]
            if kept:
                self._buckets[bucket] = kept
            for chunk in chunks:
                if chunk.frame.height < rows_max and (rest := chunk.between(self._released, TIME_MAX)).height:
                    self._add_recent(rest)

    # ---- rows out ----------------------------------------------------------------------------------------------------

    def due(self, watermark: int) -> Iterator[pl.DataFrame]:
        """Releases the rows with `__ts` <= watermark - lateness, in order; no frame is empty.

        The rows have left the buffer when this returns. Each call of the iterator sorts or gathers some of them.
        """
        self._watermark = max(self._watermark, watermark)
        end = self._end_of_release()
        if end <= self._released:
            return iter(())
        parts = self._take_recent(end) + self._take_sealed(end)
        self._released = end
        self._rows -= sum(part.height for part in parts)
        return self._in_order(parts)

    def _end_of_release(self) -> int:
        if self._watermark == TIME_MAX:
            return TIME_MAX
        return max(self._watermark - self._lateness_ms, TIME_MIN)

    def _take_recent(self, end: int) -> list[pl.DataFrame]:
        if self._recent_first > end:
            return []
        self._settle()
        recent = [frames[0] for frames in self._recent.values()]
        self._recent.clear()
        self._recent_rows, self._recent_frames, self._recent_first = 0, 0, TIME_MAX
        taken = []
        for frame in recent:
            is_due = _times(frame) <= end
            taken.append(frame.filter(pl.Series(is_due)))
            if not is_due.all():
                self._add_recent(frame.filter(pl.Series(~is_due)))
        return [part for part in taken if part.height]

    def _take_sealed(self, end: int) -> list[pl.DataFrame]:
        taken: list[pl.DataFrame] = []
        cut: set[_Bucket] = set()
        while self._by_begin and self._by_begin[0].begin_ms <= end:
            bucket = heapq.heappop(self._by_begin)
            if bucket not in self._buckets or bucket in cut:
                continue  # the bucket was divided, and may have come again
            taken += [chunk.between(self._released, end) for chunk in self._buckets[bucket]]
            if bucket.last_ms <= end:
                del self._buckets[bucket]
            else:
                cut.add(bucket)
        for bucket in cut:
            heapq.heappush(self._by_begin, bucket)
        self._cut = {bucket for bucket in self._cut | cut if bucket in self._buckets}
        return [part for part in taken if part.height]

    def _in_order(self, parts: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for some in _by_key_range(parts, self._order):
            yield from _released(self._whole(some), self._order)

    def _whole(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        rows = pl.concat(parts, how="diagonal", rechunk=True)
        lacking = [name for name in self._columns if name not in rows.columns]
        if lacking:
            rows = rows.with_columns([pl.lit(None, dtype=self._columns[name]).alias(name) for name in lacking])
        rows = rows.select(*self._columns)
        return rows.with_columns(pl.col(OP).fill_null(value=False)) if OP in rows.columns else rows

    # ---- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> list[StateSnapshot]:
        """The rows by key, and `<name>_time`, the watermark. Of the rows, only recent ones are copied."""
        self._seal()
        for bucket in self._cut:
            if bucket in self._buckets:
                self._buckets[bucket] = self._rest(bucket)
        self._cut.clear()
        chunks = [Chunk(chunk.number, chunk.frame) for found in self._buckets.values() for chunk in found]
        frame = pl.DataFrame({WATERMARK: [self._watermark]})
        # an unchanged chunk keeps its id, so that an incremental checkpoint does not write it again
        if self._time is None or not self._time.frame.equals(frame):
            self._time = Chunk(0 if self._time is None else self._time.id + 1, frame)
        return [
            StateSnapshot(self._name, StateKind.KEYED, self._keys, tuple(chunks)),
            StateSnapshot(f"{self._name}_time", StateKind.UNION, (), (self._time,)),
        ]

    def _rest(self, bucket: _Bucket) -> list[_Chunk]:
        """The chunks of a bucket that was cut, without released rows."""
        rest, rewritten = [], 0
        for chunk in self._buckets[bucket]:
            rows = chunk.between(self._released, TIME_MAX)
            if rows.height == chunk.frame.height:
                rest.append(chunk)
            elif rows.height:
                rest.append(_Chunk(next(self._numbers), rows))
                rewritten += rows.height
        if rewritten > ROWS_REWRITTEN_MAX:
            self._divided[bucket] = TIME_MAX
        return rest

    def restore(self, states: RestoredStates) -> None:
        """Continues from snapshots of any parallelism. The buffer is empty.

        A watermark of +inf (the input had ended) restarts from -inf: the restored job reads new input.
        """
        times = [time for frame in states.get(f"{self._name}_time", ()) for time in frame.get_column(WATERMARK)]
        self._watermark = min(times, default=TIME_MIN)
        if self._watermark == TIME_MAX:
            self._watermark = TIME_MIN
        self._released = self._end_of_release()
        for frame in states.get(self._name, ()):
            if frame.height:
                self._add(frame)


# ---- buckets ---------------------------------------------------------------------------------------------------------
# A bucket is a span of event time whose width is a power of two, and which begins at a multiple of it. Recent rows are
# divided into the narrowest buckets that are at most PIECES_MAX. So the width follows the disorder of the rows, a few
# rows at distant times do not widen it, and buckets of different width are disjoint or nested. A release cuts at most
# one bucket of each width.


@dataclass(frozen=True, slots=True, order=True)
class _Bucket:
    """The times from `begin_ms` on, for 2 ** `shift` milliseconds."""

    begin_ms: int
    shift: int

    @property
    def last_ms(self) -> int:
        return self.begin_ms + (1 << self.shift) - 1


class _Chunk:
    """Rows of a bucket, in the order of their times. Rows up to the end of the last release have left."""

    __slots__ = ("_times", "frame", "number", "size_bytes")

    def __init__(self, number: int, frame: pl.DataFrame) -> None:
        self.number = number
        self.frame = frame
        self.size_bytes = int(frame.estimated_size())
        self._times = _times(frame)

    def between(self, after: int, end: int) -> pl.DataFrame:
        """The rows with after < `__ts` <= end."""
        begin, stop = np.searchsorted(self._times, np.array([after, end]), "right").tolist()
        return self.frame.slice(begin, stop - begin)


def _pieces(rows: pl.DataFrame) -> Iterator[tuple[_Bucket, pl.DataFrame]]:
    """The rows of each bucket, sorted by time, in memory of their own."""
    order = sorted_order(_words(_times(rows)))
    times = _times(rows)[order]
    shift = bucket_shift(times, max(2, min(PIECES_MAX, rows.height // ROWS_PIECE_MIN)))
    numbers = times >> shift
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), rows.height]
    gathered = _Gathered(rows)
    for begin, end in itertools.pairwise(bounds):
        yield _Bucket(int(numbers[begin]) << shift, shift), gathered.rows(order[begin:end])


def bucket_shift(times: Times, count: int) -> int:
    """The least s so that ascending times lie in at most `count` (from 2 on) buckets of 2 ** s milliseconds."""
    # neighbours are in different buckets if they differ in a bit from s on
    differing = (times[1:] ^ times[:-1]).view(np.uint64)
    if len(differing) < count:
        return 0
    return int(np.partition(differing, len(differing) - count)[len(differing) - count]).bit_length()


class _Gathered:
    """Gathers rows of a frame. Texts are copied: polars would keep all texts of the frame for the rows of a piece."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._run = kernel.RunColumns(frame, [TS], None) if is_loaded() else None

    def rows(self, order: npt.NDArray[np.uint32]) -> pl.DataFrame:
        if self._run is None:
            return self._frame[pl.Series(order)]
        return kernel.gather([self._run], np.zeros(len(order), np.int32), order, self._frame.columns)


def _times(rows: pl.DataFrame) -> Times:
    times = rows.get_column(TS)
    assert not times.null_count(), "rows in order have an event time"
    return times.to_numpy()


def _words(times: Times) -> npt.NDArray[np.uint64]:
    """Times as unsigned numbers of the same order."""
    return times.view(np.uint64) ^ _SIGN


def _one(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, rechunk=True) if len(frames) > 1 else frames[0].rechunk()


# ---- order -----------------------------------------------------------------------------------------------------------
# Pure: rows to frames in the order of a release. Rows are sorted by two numbers, the place of their key in files
# (`KeyOrder`) and their time. Keys that have the same place, and rows of one key and time, are sorted afterwards.


def _by_key_range(parts: Sequence[pl.DataFrame], order: KeyOrder) -> Iterator[Sequence[pl.DataFrame]]:
    """All rows, about ROWS_SORTED_MAX at a time by ascending places of keys, and all rows of a key at a time."""
    rows = sum(part.height for part in parts)
    if rows <= ROWS_SORTED_MAX or not order.keys:
        if rows:
            yield parts
        return
    places = [order.places(part) for part in parts]
    every = np.concatenate(places)
    sample = np.sort(every[:: max(1, rows // _SAMPLED_ROWS)])
    count = -(-rows // ROWS_SORTED_MAX)
    bounds = np.unique(sample[np.arange(1, count) * len(sample) // count])
    ranges = [np.searchsorted(bounds, found, "right") for found in places]
    for number in range(len(bounds) + 1):
        chosen = [part.filter(pl.Series(own == number)) for part, own in zip(parts, ranges, strict=True)]
        if any(part.height for part in chosen):
            yield [part for part in chosen if part.height]


def _released(rows: pl.DataFrame, order: KeyOrder) -> Iterator[pl.DataFrame]:
    """The rows in order, in frames of at most ROWS_RELEASED_MAX, or of all rows of a key and time."""
    positions, begins = _sorted_rows(rows, order)
    begin = 0
    while begin < rows.height:
        index = int(np.searchsorted(begins, begin + ROWS_RELEASED_MAX, "right")) - 1
        if begins[index] == begin:
            index += 1
        end = int(begins[index])
        yield rows[pl.Series(positions[begin:end])]
        begin = end


def _sorted_rows(rows: pl.DataFrame, order: KeyOrder) -> tuple[npt.NDArray[np.uint32], Positions]:
    """The positions of the rows in order; where a key and time begin in that order, and the number of rows."""
    places = order.places(rows) if order.keys else np.zeros(rows.height, np.uint64)
    times = _times(rows)
    positions = sorted_order(_words(times))
    positions = positions[sorted_order(places[positions])]
    places = places[positions]
    alike = places[1:] == places[:-1]
    others = _other_keys(rows, order.keys, positions)
    if (alike & others).any():
        _sort_keys(rows, order.keys, positions, alike, others)
        others = _other_keys(rows, order.keys, positions)
    times = times[positions]
    alike &= ~others & (times[1:] == times[:-1])
    if alike.any():
        _sort_places(rows, positions, alike)
    return positions, np.concatenate([[0], np.flatnonzero(~alike) + 1, [rows.height]])


def _other_keys(rows: pl.DataFrame, keys: Sequence[str], positions: npt.NDArray[np.uint32]) -> Flags:
    """Whether each row but the first has another key than the one before it. One zero, one NaN; NULL equals NULL."""
    others: Flags = np.zeros(rows.height - 1, np.bool_)
    for column in rows.select(keys)[pl.Series(positions)] if keys else ():
        others |= column[1:].ne_missing(column[:-1]).to_numpy()
    return others


def _sort_keys(
    rows: pl.DataFrame, keys: Sequence[str], positions: npt.NDArray[np.uint32], alike: Flags, others: Flags
) -> None:
    """Sorts rows by key where keys that differ have the same place. Rows of a key keep their order."""
    runs = np.concatenate([[0], np.cumsum(~alike)])
    chosen = np.flatnonzero(np.isin(runs, runs[1:][alike & others]))
    found = rows.select(keys)[pl.Series(positions[chosen])].insert_column(0, pl.Series(_RUN, runs[chosen]))
    _reorder(positions, chosen, found)


def _sort_places(rows: pl.DataFrame, positions: npt.NDArray[np.uint32], alike: Flags) -> None:
    """Sorts rows of one key and time by place and input. alike: rows that have those of the row before."""
    runs = np.concatenate([[0], np.cumsum(~alike)])
    chosen = np.flatnonzero(np.concatenate([alike, [False]]) | np.concatenate([[False], alike]))
    found = rows.select(*ORDER_COLUMNS, INPUT)[pl.Series(positions[chosen])]
    # most rows have one source and one topic, and texts are what takes long
    varying = [column for column in found if column[1:].ne_missing(column[:-1]).any()]
    _reorder(positions, chosen, pl.DataFrame([pl.Series(_RUN, runs[chosen]), *varying]))


def _reorder(positions: npt.NDArray[np.uint32], chosen: Positions, by: pl.DataFrame) -> None:
    """Sorts the chosen positions by the columns of a frame, which has a row for each of them."""
    order = by.with_row_index(_AT).sort(by.columns, maintain_order=True).get_column(_AT).to_numpy()
    positions[chosen] = positions[chosen][order]
