"""The ordered buffer: rows that wait for the watermark, released key by key in the total order.

    put(rows, input)     adds the rows that are on time, in any order; returns the late ones
    due(watermark)       the rows with event time <= watermark - allowed lateness, which leave the buffer
    snapshot(), restore  all rows that wait, as numbered chunks, and the watermark

A release is sorted by (key group, upper 48 bits of the key's hash, key, event time, place, input): see `KeyOrder` and
`core.batch` for the two ends of that. So a key's rows come one after the other, in their order, and rows of one key and
time come in one frame. Neither batches nor snapshots nor the parallelism that wrote a snapshot changes a key's rows.

Rows lie in buckets of event time. A release removes whole buckets, and cuts those that it ends in. A number means the
same rows for the life of the buffer, so that a checkpoint writes only what is new: a chunk gets another number only if
a cut released some of its rows, if its bucket is divided, or if it is one of many small chunks.

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

from headrace.core.batch import OP, TS, WM
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.kernels.library import is_loaded
from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order
from headrace.state.ordered_rows import INPUT, Times, by_key_range, released, times_of, words_of
from headrace.state.row_groups import KeyOrder
from headrace.state.snapshot import Chunk, RestoredStates, StateKind, StateSnapshot

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
ROWS_SMALL_MAX = 1_024
"""Rows of a small chunk, as a snapshot makes them that seals few rows."""
SMALL_CHUNKS_MAX = 32
"""Small chunks; more are sealed again together."""
SEALS_SEARCHED = 16
"""Seals after which small chunks are counted."""
ROWS_REWRITTEN_MAX = 65_536
"""Rows of a bucket that a snapshot may number anew after a cut. A bucket with more is divided."""
SHARED_MAX = 4
"""Rows in memory that chunks share, by waiting rows. Beyond that, chunks of seals that have mostly left are copied."""


class OrderedBuffer:
    """The waiting rows of one operator. Used by one thread.

    Rows have `__ts`, the order columns and, if one of them may be late, `__wm`. Inputs may have different columns. A
    released row has those of all inputs, NULL where its input lacks one (`__op`: False), then INPUT. It has no `__wm`:
    what leaves an ordered operator is never late.
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
        self._lateness_ms = lateness_ms
        self._order = KeyOrder(tuple(keys), max_parallelism)
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
        self._marked: dict[_Bucket, int] = {}  # the most rows of a chunk that is sealed again
        self._seals: set[_Seal] = set()
        self._shared_rows = 0
        self._unsearched = 0
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
        """Adds the rows of input `number` that are on time; returns those with `__ts` + lateness <= `__wm`."""
        times = times_of(rows)
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
            self._add([*rows.get_columns(), pl.Series(INPUT, [number], pl.Int16).new_from_index(0, rows.height)])
        return late

    def _add(self, columns: Sequence[pl.Series]) -> None:
        # `select` costs more than everything else here
        rows = pl.DataFrame([column for column in columns if column.name in self._columns])
        self._rows += rows.height
        self._add_recent(rows)

    def _add_recent(self, rows: pl.DataFrame) -> None:
        self._recent.setdefault(tuple(rows.columns), []).append(rows)
        self._recent_rows += rows.height
        self._recent_frames += 1
        self._recent_first = min(self._recent_first, int(times_of(rows).min()))
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
            sealed = _one(frames)
            seal = _Seal(sealed.height)
            self._seals.add(seal)
            self._shared_rows += seal.rows
            for bucket, rows in _pieces(sealed):
                self._append(bucket, seal.chunk(next(self._numbers), rows))
            self._unsearched += 1
        self._recent.clear()
        self._recent_rows, self._recent_frames, self._recent_first = 0, 0, TIME_MAX
        if self._unsearched >= SEALS_SEARCHED:
            self._unsearched = 0
            self._mark_small()

    def _leave(self, chunk: _Chunk) -> None:
        """Forgets a chunk that is in no bucket any more."""
        seal = chunk.seal
        seal.chunks.remove(chunk)
        if not seal.chunks:
            self._seals.remove(seal)
            self._shared_rows -= seal.rows

    def _free(self) -> None:
        """Bounds the memory that chunks share. Rows that wait long would keep those that have left."""
        if self._shared_rows > SHARED_MAX * (self._rows + ROWS_RECENT_MAX):
            for seal in self._seals:
                self._shared_rows -= seal.freed()

    def _append(self, bucket: _Bucket, chunk: _Chunk) -> None:
        chunks = self._buckets.get(bucket)
        if chunks is None:
            chunks = self._buckets[bucket] = []
            heapq.heappush(self._by_begin, bucket)
        chunks.append(chunk)

    def _mark_small(self) -> None:
        buckets = self._buckets.items()
        small = [bucket for bucket, chunks in buckets for chunk in chunks if chunk.frame.height <= ROWS_SMALL_MAX]
        if len(small) > SMALL_CHUNKS_MAX:
            for bucket in small:
                self._marked.setdefault(bucket, ROWS_SMALL_MAX)

    def _divide(self) -> None:
        """Seals rows of marked buckets again. A snapshot, which marks them, must not wait for that."""
        marked, self._marked = self._marked, {}
        for bucket, rows_max in marked.items():
            chunks = self._buckets.pop(bucket, [])
            kept = [chunk for chunk in chunks if chunk.frame.height > rows_max]
            if kept:
                self._buckets[bucket] = kept
            for chunk in chunks:
                if chunk.frame.height <= rows_max:
                    if (rest := chunk.between(self._released, TIME_MAX)).height:
                        self._add_recent(rest)
                    self._leave(chunk)

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
        self._free()
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
        due = []
        for frame in recent:
            is_due = times_of(frame) <= end
            due.append(frame.filter(pl.Series(is_due)))
            if not is_due.all():
                self._add_recent(frame.filter(pl.Series(~is_due)))
        return [part for part in due if part.height]

    def _take_sealed(self, end: int) -> list[pl.DataFrame]:
        due: list[pl.DataFrame] = []
        cut: set[_Bucket] = set()
        while self._by_begin and self._by_begin[0].begin_ms <= end:
            bucket = heapq.heappop(self._by_begin)
            if bucket not in self._buckets or bucket in cut:
                continue  # the bucket was divided, and may have come again
            due += [chunk.between(self._released, end) for chunk in self._buckets[bucket]]
            if bucket.last_ms <= end:
                for chunk in self._buckets.pop(bucket):
                    self._leave(chunk)
            else:
                cut.add(bucket)
        for bucket in cut:
            heapq.heappush(self._by_begin, bucket)
        self._cut = {bucket for bucket in self._cut | cut if bucket in self._buckets}
        return [part for part in due if part.height]

    def _in_order(self, parts: Sequence[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        for group in by_key_range(parts, self._order):
            yield from released(self._whole(group), self._order)

    def _whole(self, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The rows in one frame, with the columns that are released."""
        alike = all(part.columns == parts[0].columns for part in parts)
        rows = pl.concat(parts, how="vertical" if alike else "diagonal", rechunk=True)
        columns = [
            rows.get_column(name)
            if name in rows.columns
            else pl.Series(name, [None], dtype).new_from_index(0, rows.height)
            for name, dtype in self._columns.items()
        ]
        rows = pl.DataFrame(columns)
        return rows.with_columns(pl.col(OP).fill_null(value=False)) if OP in rows.columns else rows

    # ---- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> list[StateSnapshot]:
        """The rows by key, and `<name>_time`, the watermark. Of the rows, only recent ones are copied."""
        self._seal()
        for bucket in self._cut:
            if bucket in self._buckets:
                self._buckets[bucket] = self._rest(bucket)
        self._cut.clear()
        chunks = [Chunk(chunk.number, chunk.frame) for bucket in self._buckets.values() for chunk in bucket]
        frame = pl.DataFrame({WATERMARK: [self._watermark]})
        # an unchanged chunk keeps its id, so that an incremental checkpoint does not write it again
        if self._time is None or not self._time.frame.equals(frame):
            self._time = Chunk(0 if self._time is None else self._time.id + 1, frame)
        return [
            StateSnapshot(self._name, StateKind.KEYED, self._order.keys, tuple(chunks)),
            StateSnapshot(f"{self._name}_time", StateKind.UNION, (), (self._time,)),
        ]

    def _rest(self, bucket: _Bucket) -> list[_Chunk]:
        """The chunks of a bucket that was cut, without released rows."""
        rest, rewritten = [], 0
        for chunk in self._buckets[bucket]:
            rows = chunk.between(self._released, TIME_MAX)
            if rows.height == chunk.frame.height:
                rest.append(chunk)
            else:
                if rows.height:
                    rest.append(chunk.seal.chunk(next(self._numbers), rows))
                    rewritten += rows.height
                self._leave(chunk)
        if rewritten > ROWS_REWRITTEN_MAX:
            self._marked[bucket] = TIME_MAX
        return rest

    def restore(self, states: RestoredStates) -> None:
        """Continues from snapshots of any parallelism. The buffer is empty.

        A watermark of +inf (the input had ended) restarts from -inf: the restored job reads new input.
        """
        times = [time for each in states.get(f"{self._name}_time", ()) for time in each.frame.get_column(WATERMARK)]
        self._watermark = min(times, default=TIME_MIN)
        if self._watermark == TIME_MAX:
            self._watermark = TIME_MIN
        self._released = self._end_of_release()
        for each in states.get(self._name, ()):
            if each.frame.height:
                # rows are divided into buckets again, so their origins are lost
                self._add(each.frame.get_columns())


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

    __slots__ = ("_times", "frame", "number", "seal", "size_bytes")

    def __init__(self, number: int, frame: pl.DataFrame, seal: _Seal) -> None:
        self.number = number
        self.frame = frame
        self.seal = seal
        self.size_bytes = int(frame.estimated_size())
        self._times = times_of(frame)

    def between(self, after: int, end: int) -> pl.DataFrame:
        """The rows with after < `__ts` <= end."""
        begin, stop = np.searchsorted(self._times, np.array([after, end]), "right").tolist()
        return self.frame.slice(begin, stop - begin)

    def copy(self) -> None:
        """Moves the rows to memory of their own."""
        self.frame = _gathered(self.frame, np.arange(self.frame.height, dtype=np.uint32))
        self._times = times_of(self.frame)


class _Seal:
    """Chunks that were sealed together, and share memory. rows: those that lie in it."""

    __slots__ = ("chunks", "rows")

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.chunks: list[_Chunk] = []

    def chunk(self, number: int, rows: pl.DataFrame) -> _Chunk:
        """A chunk with some of the rows."""
        chunk = _Chunk(number, rows, self)
        self.chunks.append(chunk)
        return chunk

    def freed(self) -> int:
        """Copies the chunks if they are less than half of the memory; returns how many rows fewer it has."""
        waiting = sum(chunk.frame.height for chunk in self.chunks)
        if 2 * waiting >= self.rows:
            return 0
        for chunk in self.chunks:
            chunk.copy()
        before, self.rows = self.rows, waiting
        return before - waiting


def _pieces(rows: pl.DataFrame) -> Iterator[tuple[_Bucket, pl.DataFrame]]:
    """The rows of each bucket, sorted by time."""
    rows = _gathered(rows, sorted_order(words_of(times_of(rows))))
    times = times_of(rows)
    shift = bucket_shift(times, max(2, min(PIECES_MAX, rows.height // ROWS_PIECE_MIN)))
    numbers = times >> shift
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), rows.height]
    for begin, end in itertools.pairwise(bounds):
        yield _Bucket(int(numbers[begin]) << shift, shift), rows.slice(begin, end - begin)


def _gathered(rows: pl.DataFrame, order: npt.NDArray[np.uint32]) -> pl.DataFrame:
    """The rows in this order. Their texts are copied: polars keeps all texts of a batch for the rows that are left."""
    gathered = rows[pl.Series(order)]
    texts = [name for name, dtype in rows.schema.items() if dtype in (pl.String, pl.Binary)]
    if texts and is_loaded():
        run = kernel.RunColumns(rows, [TS], None)
        for column in kernel.gather([run], np.zeros(len(order), np.int32), order, texts):
            gathered.replace_column(gathered.get_column_index(column.name), column)
    return gathered


def bucket_shift(times: Times, count: int) -> int:
    """The least s so that ascending times lie in at most `count` (from 2 on) buckets of 2 ** s milliseconds."""
    # neighbours are in different buckets if they differ in a bit from s on
    differing = (times[1:] ^ times[:-1]).view(np.uint64)
    if len(differing) < count:
        return 0
    return int(np.partition(differing, len(differing) - count)[len(differing) - count]).bit_length()


def _one(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, rechunk=True) if len(frames) > 1 else frames[0].rechunk()
