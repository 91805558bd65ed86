"""A table of keyed state: rows of typed columns under a key. `TableConfig` says how rows of one key combine.

    add(rows), delete(keys)     recent rows
    seal()                      recent rows become runs: immutable, sorted by key (`state.runs`)
    read(keys), between(..)     the rows of these keys, with the number of the key; get(keys): as they lie, to be merged
    due(bucket), drop(bucket)   the rows of all buckets up to one, which lie in runs of their own
    expire(time)                runs all of whose rows have expired go without being read
    chunks()                    everything, as immutable frames with numbers, for a snapshot

Runs of a bucket are merged by tiers (`runs.due`), neighbours in time only: what was written later lies in a later
run. A number means the same rows for the life of the table, so that a checkpoint writes only what is new.

No row outlives its last write by more than twice the ttl. A merge drops the rows that have expired. So those that it
keeps were written less than a ttl before it, and a ttl after it the whole run has expired.

Beyond the slot's budget the largest parts of runs move to local files (`state.place`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import polars as pl

from headrace.core.signals import TIME_MIN
from headrace.state.combine import ASKED, KIND, Append, Kind, Last, Merge, Merged, TableConfig, normal
from headrace.state.merging import Reduce, merged_rows, sorted_rows
from headrace.state.place import StatePlace
from headrace.state.row_groups import KeyOrder, SortedRows
from headrace.state.runs import (
    RUNS_MAX,
    VERSION,
    Bucket,
    MergingRuns,
    Moves,
    Part,
    Run,
    due,
    merged,
    part_of,
    release,
    retained,
    unexpired,
)
from headrace.state.search import AGE, Near, newest_rows, numbered_rows, rows_of
from headrace.state.snapshot import Chunk, RestoredFrame

ROWS_RECENT_MAX = 65_536
"""Recent rows that are sealed."""
SEALED_BYTES_MIN = 1 << 20
"""Recent rows of so many bytes are sealed earlier if the slot has no room for them."""
FRAMES_RECENT_MAX = 64
"""Recent frames that are sealed."""
FRAMES_LOOSE_MAX = 8
"""Recent frames that a snapshot refers to; more are sealed first, if they are small."""
FRAMES_SEARCHED_MAX = 4
"""Recent frames that are sealed where every batch searches them."""
FRAMES_SORTED_MAX = 16
"""Recent frames that are sealed where they are sorted, because the last row of a key counts."""

Times = int | pl.Series | None
"""Event time of an access in ms, or of each asked key; None: rows do not expire."""


class Table:
    """The rows of one part of a step's state. Used by one thread, but for merges, which only read runs."""

    def __init__(
        self, config: TableConfig, place: StatePlace | None = None, *, numbers: Iterator[int] | None = None
    ) -> None:
        """place: None: in memory. numbers: those of its chunks; tables of one state share them."""
        self._config = config
        self._place = StatePlace() if place is None else place
        self._order = KeyOrder(config.keys, self._place.max_parallelism) if config.keys else None
        self._numbers = itertools.count() if numbers is None else numbers
        self._recent: list[Part] = []
        self._recent_rows = self._recent_bytes = 0
        self._buckets: dict[Bucket, list[Run]] = {}
        self._changed: dict[Bucket, None] = {}
        """Buckets whose runs may have to be merged."""
        self._version = 0
        self._now = TIME_MIN
        self._is_merged = True
        self._merging: MergingRuns | None = None
        self._moves = Moves(self._place)
        self._account = self._place.account()
        self._made = self._place.account()
        """What a merge has made so far: its thread writes it."""

    @staticmethod
    def merging(
        keys: Sequence[str], merge: Merge, place: StatePlace | None = None, *, numbers: Iterator[int] | None = None
    ) -> Table:
        """A table whose rows merge."""
        return Table(TableConfig(tuple(keys), Merged(merge)), place, numbers=numbers)

    @property
    def rows(self) -> int:
        """Rows in recent frames and runs: a key counts as often as it has rows that are not merged yet."""
        return self._recent_rows + sum(run.rows for run in self._runs())

    @property
    def bytes(self) -> int:
        """Bytes of its rows, wherever they lie."""
        return self._account.memory_bytes + self._account.file_bytes

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(len(runs) for runs in self._buckets.values())

    # ------------------------------------------------------------------ rows in

    def add(self, rows: pl.DataFrame, *, frames_max: int = FRAMES_RECENT_MAX) -> None:
        """Adds rows. frames_max: recent frames beyond which they are sealed."""
        if not rows.height:
            return
        config, number = self._config, next(self._numbers)
        if not config.is_ordered:
            self._add(Part(number, rows), frames_max)
            return
        self._version += 1
        rows = normal(rows, (*config.keys, *config.order))
        sorted_ = sorted_rows([rows], self._key_order, self._reduce([rows]))
        part = Part(number, sorted_.frame, sorted_, version=self._version)
        self._add(part, min(frames_max, FRAMES_SORTED_MAX))

    def delete(self, keys: pl.DataFrame) -> None:
        """Deletes rows: those with these key and order columns; all rows of a key, if `keys` has no order columns or
        rows are appended. A table with buckets or times needs these columns too.
        """
        config = self._config
        is_entry = isinstance(config.combine, Last) and all(name in keys.columns for name in config.order)
        assert config.is_ordered and (is_entry or config.bucket is None), "a tombstone lies in the bucket of its rows"
        names = [*config.keys, *(config.order if is_entry else ()), *filter(None, [config.written])]
        kind = Kind.ENTRY_GONE if is_entry else Kind.KEY_GONE
        self.add(keys.select(*names, pl.lit(int(kind), pl.Int8).alias(KIND)))

    def _add(self, part: Part, frames_max: int) -> None:
        self._recent.append(part)
        self._recent_rows += part.frame.height
        self._recent_bytes += part.memory_bytes
        self._account.memory_bytes += part.memory_bytes
        if len(self._recent) >= frames_max or self._recent_rows >= ROWS_RECENT_MAX:
            self.seal()

    def restored(self, restored: RestoredFrame) -> Part:
        """A part of rows that were written before, for `add_restored`: in a local file if the slot has no room."""
        part = self._moves.within_budget(self._restored(restored), self._account)
        self._version = max(self._version, part.version or 0)
        return part

    def add_restored(self, parts: Iterable[Part]) -> None:
        """Adds restored parts, several rows of a key among them, where it does not matter which of them were written
        later. Otherwise: parts with keys that the table does not have."""
        runs: dict[tuple[Bucket, int], list[Part]] = {}
        for part in parts:
            bucket = None if self._config.bucket is None else int(part.frame.item(0, self._config.bucket))
            runs.setdefault((bucket, part.version or 0), []).append(part)
        for (bucket, _), own in sorted(runs.items(), key=lambda item: item[0][1]):
            self._append(bucket, Run(tuple(own)))
        if runs:
            self._is_merged = False
            self._merge_due()

    @property
    def is_gathered(self) -> bool:
        """Whether restored frames may be gathered: their rows are of no bucket, and none of them is the later one."""
        return not self._config.is_ordered and self._config.bucket is None

    def _restored(self, restored: RestoredFrame) -> Part:
        rows, number = restored.frame, next(self._numbers)
        if not self._config.is_ordered:
            return part_of(number, rows, self._order, origin=restored.origin)
        version = int(rows.item(0, VERSION)) if VERSION in rows.columns else 0
        rows = rows.drop(VERSION, strict=False)
        with_times = self._config.timed(rows, self._now)
        origin = restored.origin if with_times is rows else None
        return part_of(number, with_times, self._order, origin=origin, version=version)

    def retain(self, kept: Callable[[pl.DataFrame], pl.Series]) -> None:
        """Keeps the rows for which `kept` is true, the mask of a frame."""
        self._finish_merge()
        self._seal()
        for runs in self._buckets.values():
            runs[:] = [run for each in runs if (run := retained(each, kept, self._numbers)).parts]
        self.shrink()

    def seal(self) -> None:
        """Makes runs of the recent rows, and merges runs that are due."""
        if self._recent:
            self._seal()
            self._merge_due()

    def _seal(self) -> None:
        if not self._recent:
            return
        recent, self._recent = self._recent, []
        self._recent_rows = self._recent_bytes = 0
        sealed = self._made_part(self._merged_recent(recent), recent[-1].version, self._now, whole=False)
        for bucket, part in self._by_bucket(sealed):
            self._append(bucket, Run((part,)))

    def _merged_recent(self, recent: Sequence[Part]) -> SortedRows | pl.DataFrame:
        frames = [part.frame for part in recent]
        if self._order is None:
            return frames[0] if len(frames) == 1 else self._reduced(frames)
        reduce = self._reduce(frames) if len(frames) > 1 else None
        slices = [part.sorted for part in recent if part.sorted is not None]
        if slices:
            return merged_rows(slices, self._order, reduce)
        return sorted_rows(frames, self._order, reduce)

    def _by_bucket(self, part: Part) -> Iterator[tuple[Bucket, Part]]:
        name = self._config.bucket
        if name is None:
            yield None, part
            return
        column = part.frame.get_column(name)
        buckets = column.unique().to_list()
        for bucket in buckets:
            whole = len(buckets) == 1
            yield bucket, part if whole else part.filtered(next(self._numbers), column == bucket)

    def tidy(self, rows_max: int) -> int:
        """Seals recent rows if they are in many frames and at most `rows_max`; returns how many it sealed."""
        rows = self._recent_rows
        if len(self._recent) <= FRAMES_LOOSE_MAX or rows > rows_max:
            return 0
        self.seal()
        return rows

    # ------------------------------------------------------------------ rows out

    def get(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """All rows of these keys, which the caller merges. keys: the key columns, distinct."""
        return rows_of([*self._parts(), *self._recent], keys, self._order)

    def get_sealed(self, keys: pl.DataFrame) -> list[pl.DataFrame]:
        """The rows of these keys in runs; for a caller that knows of all recent rows."""
        found = rows_of(self._parts(), keys, self._order)
        self._place.limit_pages()
        return found

    def read(self, keys: pl.DataFrame, *, at: Times = None) -> pl.DataFrame:
        """The rows of these keys that were neither replaced nor deleted nor have expired, with ASKED, the number of the
        key, by which they are sorted, then by the order columns. Rows are not merged: `get` is for these.

        keys   has the key columns
        """
        keys = normal(keys, self._config.keys)
        parts = [*self._parts(), *self._recent]
        find = newest_rows if self._config.is_single else numbered_rows
        return self._found(find(parts, keys, self._key_order), at)

    def between(self, keys: pl.DataFrame, low: pl.Series, high: pl.Series, *, at: Times = None) -> pl.DataFrame:
        """As `read`: those whose first order column has values from low to high, inclusive. low, high: of each key;
        NULL: no row."""
        assert self._config.order, "rows have an order"
        near = Near(self._config.order[0], low, high)
        parts = [part for part in (*self._parts(), *self._recent) if near.may_have(part)]
        return self._found(numbered_rows(parts, normal(keys, self._config.keys), self._key_order, near), at)

    def _found(self, found: Sequence[pl.DataFrame], at: Times) -> pl.DataFrame:
        if not found:
            return pl.DataFrame(schema={ASKED: pl.UInt32})
        rows = found[0] if len(found) == 1 else pl.concat(found, how="diagonal")
        if not self._config.is_single:
            rows = self._config.reduced([rows.sort(ASKED, AGE, maintain_order=True)], [ASKED]).drop(AGE)
        if isinstance(at, pl.Series):
            at = at[rows.get_column(ASKED)]
        rows = self._living(rows, at)
        by = [name for name in (ASKED, *self._config.order) if name in rows.columns]
        return rows.sort(by, maintain_order=True)

    def _living(self, rows: pl.DataFrame, at: Times) -> pl.DataFrame:
        lives = self._config.living(rows, at, whole=True)
        rows = rows if lives is None else rows.filter(lives)
        return rows.drop(KIND, strict=False)

    def due(self, bucket: int) -> Iterator[pl.DataFrame]:
        """The rows of all buckets up to this one, by bucket, in frames of about `runs.PART_ROWS_MAX` rows at most."""
        self._seal()
        for each in sorted(number for number in self._buckets if number is not None and number <= bucket):
            yield from self._whole(each)

    def scan(self, *, at: int | None = None) -> Iterator[pl.DataFrame]:
        """All rows, in frames of about `runs.PART_ROWS_MAX` rows at most."""
        self._seal()
        for bucket in list(self._buckets):
            yield from self._whole(bucket, at)

    def _whole(self, bucket: Bucket, at: int | None = None) -> Iterator[pl.DataFrame]:
        parts = [part for run in self._buckets[bucket] for part in run.parts]
        for piece in self._pieces(parts):
            rows = self._living(piece if isinstance(piece, pl.DataFrame) else piece.frame, at)
            if rows.height:
                yield rows

    def drop(self, bucket: int) -> None:
        """Drops all buckets up to this one, without reading them."""
        self._seal()
        for each in [number for number in self._buckets if number is not None and number <= bucket]:
            release(self._buckets.pop(each), self._place.merges)
            self._changed.pop(each, None)
        self._count()

    def expire(self, time: int) -> None:
        """Time has come to `time` ms: all later accesses are at it or after it. Parts all of whose rows have expired go
        without being read, and no row stays that was written two ttl ago, but for those that are being merged."""
        self._now = max(self._now, time)
        if self._config.ttl_ms is None:
            return
        if self._merging is not None and self._merging.merging.done():
            self._finish_merge()
        self._recent = unexpired(self._recent, self._config, self._now, self._numbers)
        self._recent_rows = sum(part.frame.height for part in self._recent)
        self._recent_bytes = sum(part.memory_bytes for part in self._recent)
        for bucket, runs in self._buckets.items():
            # the place of runs that are being merged is fixed until then
            if self._merging is None or self._merging.bucket != bucket:
                left = [unexpired(run.parts, self._config, self._now, self._numbers) for run in runs]
                runs[:] = [Run(tuple(parts)) for parts in left if parts]
        self._count()

    def compact(self) -> pl.DataFrame:
        """Merges all rows; returns them. The table has rows, and no buckets."""
        if not self._buckets.get(None):
            # a few rows need no order
            frames = [part.frame for part in self._recent]
            rows = frames[0] if len(frames) == 1 else self._reduced(frames)
            if rows.height < ROWS_RECENT_MAX:
                number = next(self._numbers) if len(self._recent) > 1 else self._recent[0].number
                self._recent = [Part(number, rows)]
                self._recent_rows, self._recent_bytes = rows.height, self._recent[0].memory_bytes
                self._count()
                return rows
        self._seal()
        self._finish_merge()
        if len(self._buckets[None]) > 1 or not self._is_merged:
            self._start_merge(None, 0)
            self._finish_merge()
        return pl.concat([part.frame for part in self._parts()], how="diagonal")

    def chunks(self) -> list[Chunk]:
        """All rows, as immutable frames with their numbers."""
        if self._config.is_ordered or self._config.bucket is not None:
            # a chunk has one version, and one bucket
            self.seal()
        return [part.chunk for part in (*self._parts(), *self._recent)]

    def frames(self) -> list[pl.DataFrame]:
        """All rows, as frames."""
        return [part.frame for part in (*self._parts(), *self._recent)]

    @property
    def is_merged(self) -> bool:
        """Whether its rows are one frame that has one row per key."""
        parts = self._parts()
        return len(parts) + len(self._recent) == 1 and (self._is_merged or not parts)

    def sealed(self) -> list[Part]:
        """All rows, as parts."""
        self._seal()
        return self._parts()

    def _runs(self) -> Iterator[Run]:
        return itertools.chain.from_iterable(self._buckets.values())

    def _parts(self) -> list[Part]:
        return [part for run in self._runs() for part in run.parts]

    @property
    def _key_order(self) -> KeyOrder:
        assert self._order is not None, "rows that replace others have a key"
        return self._order

    def _reduce(self, frames: Sequence[pl.DataFrame]) -> Reduce | None:
        """How the rows of these frames are combined; None: they stay beside each other."""
        stays = isinstance(self._config.combine, Append) and not any(KIND in frame.columns for frame in frames)
        return None if stays else self._reduced

    def _reduced(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return self._config.reduced(frames, self._config.keys)

    # ------------------------------------------------------------------ merges

    def _append(self, bucket: Bucket, run: Run) -> None:
        self._buckets.setdefault(bucket, []).append(run)
        self._changed[bucket] = None
        self.shrink()

    def _merge_due(self) -> None:
        while self._changed:
            bucket = next(iter(self._changed))
            runs = self._buckets.get(bucket, [])
            if self._merging is not None and (self._merging.merging.done() or len(runs) > RUNS_MAX):
                self._finish_merge()
                runs = self._buckets.get(bucket, [])
            if self._merging is not None:
                return
            del self._changed[bucket]
            if (first := due([run.rows for run in runs])) is not None:
                self._start_merge(bucket, first)
        self._start_move()

    def _start_merge(self, bucket: Bucket, first: int) -> None:
        own, now = self._buckets[bucket], self._now
        runs = own[first:]
        merging = self._place.merges.start(lambda: self._merged(runs, now, whole=first == 0))
        self._merging = MergingRuns(bucket, own, first, len(runs), merging)

    def _merged(self, runs: Sequence[Run], now: int, *, whole: bool) -> Run:
        """In the thread of merges, which shares with the table's thread what never changes."""
        parts = [part for run in runs for part in run.parts]
        latest = max((part.version for part in parts if part.version is not None), default=None)
        made = (self._made_part(piece, latest, now, whole=whole) for piece in self._pieces(parts))
        return Run(tuple(self._moves.within_budget(part, self._made) for part in made if part.frame.height))

    def _pieces(self, parts: Sequence[Part]) -> Iterator[SortedRows | pl.DataFrame]:
        reduce = self._reduce([part.frame for part in parts])
        return merged(parts, self._order, reduce, piece_bytes=self._place.budget.piece_bytes)

    def _made_part(self, rows: SortedRows | pl.DataFrame, version: int | None, now: int, *, whole: bool) -> Part:
        if isinstance(rows, pl.DataFrame):
            return Part(next(self._numbers), rows)
        part = Part(next(self._numbers), rows.frame, rows, version=version)
        lives = self._config.living(rows.frame, now, whole=whole)
        if lives is not None:
            part = part.filtered(part.number, lives)
        return part.without(KIND) if whole else part

    def _finish_merge(self) -> None:
        """Waits for the merge that runs, and takes its run. Raises what the merge raised."""
        if self._merging is None:
            return
        merging, self._merging = self._merging, None
        run = merging.merging.result()
        self._made.memory_bytes = 0
        runs = self._buckets.get(merging.bucket)
        if runs is None or runs is not merging.runs:
            return  # the bucket was dropped
        span = slice(merging.first, merging.first + merging.count)
        replaced, runs[span] = runs[span], [run] if run.parts else []
        release(replaced, self._place.merges)
        self._is_merged = self._is_merged or (merging.first == 0 and len(runs) == 1)
        self._changed[merging.bucket] = None
        self.shrink()

    # ------------------------------------------------------------------ the budget

    def shrink(self) -> None:
        """Counts what is in memory, and moves parts to local files where that is more than the budget.

        Raises UserError for more than the budget without local files.
        """
        self._count()
        if self._account.excess_bytes:
            self._place.require_room()
            self._start_move()
            self._moves.at_once(self._parts(), self._account.excess_bytes)
            self._count()
        if self._account.excess_bytes and self._recent_bytes >= SEALED_BYTES_MIN and self._place.files is not None:
            # as a run they can move, too
            self.seal()

    def _start_move(self) -> None:
        is_merging = self._merging is not None or bool(self._changed)
        self._moves.start(self._parts(), self._account.excess_bytes, is_merging=is_merging)
        self._count()

    def _count(self) -> None:
        parts = self._parts()
        self._account.memory_bytes = self._recent_bytes + sum(part.memory_bytes for part in parts)
        self._account.file_bytes = sum(part.file_bytes for part in parts)
