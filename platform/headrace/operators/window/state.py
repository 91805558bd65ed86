"""The state of windows: partial aggregates by pane, and the windows that need each pane.

State is keyed by (pane, since): the start of a pane (a slice of time, as Flink calls it), and the end of the first
window that its rows count in. So a row that was late for a window never counts in it, although other windows share the
pane.

Rows of batches with few panes go to a store per pane, a narrow store: its frames need no pane columns, and are grouped
by keys alone. Rows of further panes, if there are `PANES_NARROW_MAX` narrow stores already, and rows of batches with
many panes go to one mixed store with pane columns. A pane may have rows in both. Every store has one part for the
aggregates and one per argument whose values count.

Where the group-by kernel computes the step's aggregates, a narrow store has a table before it (the memtable of a
log-structured merge tree): rows are added to the table, and its groups go to the store as one frame when somebody reads
the store, or when tables hold more than `TABLES_BYTES_MAX`.

In snapshots every frame has pane columns. Restored rows go to stores per pane if the panes are few.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import polars as pl

from headrace.core.batch import TS
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.kernels.group.group_by import PANES_MAX, GroupTable, add_placed
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregation.snapshots import WINDOWS
from headrace.operators.window.assigner import Assigner, Span, windows_of
from headrace.operators.window.due_windows import DueWindows
from headrace.operators.window.placed_rows import PANE, SINCE, PaneKey, PlacedChunk, placed
from headrace.state.place import StatePlace
from headrace.state.restoring import Restoring
from headrace.state.runs import PART_ROWS_MAX, bounds, cut
from headrace.state.snapshot import Chunk, RestoredFrame
from headrace.state.table import Table

WINDOW_START, WINDOW_END = "__start", "__end"
PANES_NARROW_MAX = 64
ROWS_MERGED_MAX = 1 << 19
"""About how many partial rows of several windows are merged at once (a single window is always merged whole)."""
ROWS_TIDIED_MAX = 1 << 16
"""Most partial rows that a snapshot merges, so that it does not delay the barrier."""
TABLES_BYTES_MAX = 256 << 20
"""Bytes that the tables of all panes hold together."""
_SPARE_BYTES_MAX = 128 << 20
"""A larger table is freed with its pane; a smaller one serves the next pane."""
_WINDOW_ROWS_LARGE = 4096
"""Windows with more partial rows are merged one by one."""
_LEFT = "__left"


class WindowState:
    """Partial aggregates per pane, and the windows that have rows."""

    def __init__(self, layout: Layout, assigner: Assigner, place: StatePlace) -> None:
        self._layout = layout
        self._place = place
        self._account = place.of_state(WINDOWS).account()
        self._tables_bound = place.budget.cache(TABLES_BYTES_MAX)
        self._assigner = assigner
        self._keys = layout.keys
        self._numbering = [itertools.count() for _ in layout.parts]
        self._narrow: dict[PaneKey, list[Table]] = {}
        self._tables: dict[PaneKey, GroupTable] = {}
        self._table_bytes: dict[PaneKey, int] = {}
        self._spare: list[GroupTable] = []
        self._mixed = self._stores([PANE, SINCE, *self._keys])
        self._mixed_panes: set[PaneKey] = set()
        self._mixed_gone = 0
        self._last_end: dict[PaneKey, int] = {}  # pane of state -> end of its last window
        self._since: dict[int, list[int]] = {}  # pane start -> its `since` values
        self._starts: list[int] = []  # pane starts, ascending
        self._windows = DueWindows(assigner)
        self._first_gone = TIME_MAX  # lower bound of `_last_end`: most watermarks drop no pane, and skip the scan

    def _stores(self, by: list[str]) -> list[Table]:
        parts = zip(self._layout.parts, self._layout.state_names(WINDOWS), self._numbering, strict=True)
        return [
            Table.merging(self._keys, partial(part.merge, by=by), self._place.of_state(name), numbers=numbering)
            for part, name, numbering in parts
        ]

    # ------------------------------------------------------------------ rows in

    def add(self, pane: PaneKey, rows: pl.DataFrame) -> list[pl.DataFrame]:
        """Adds working rows of one pane. Returns their partial frames, one per part; the first has the aggregates by
        key."""
        partials = [part.partial(rows, self._keys) for part in self._layout.parts]
        self._register([pane])
        stores = self._narrow.get(pane)
        if stores is None and len(self._narrow) < PANES_NARROW_MAX:
            stores = self._narrow[pane] = self._stores(self._keys)
        if stores is None:
            stores = self._mixed
            self._mixed_panes.add(pane)
            partials = [placed(frame, pane) for frame in partials]
        for store, frame in zip(stores, partials, strict=True):
            store.add(frame)
        self._keep_within_budget()
        return partials

    def add_ranges(self, rows: pl.DataFrame, panes: Sequence[tuple[PaneKey, int, int]]) -> bool:
        """Adds working rows to the tables of panes, each with all rows of its span of time: (pane, begin, end). A span
        may have none.

        Returns False, and adds nothing, if there is no kernel for the step, or there are narrow stores enough.
        """
        compiled = self._layout.compiled(rows)
        fresh = sum(pane not in self._narrow for pane, _, _ in panes)
        if compiled is None or len(panes) > PANES_MAX or len(self._narrow) + fresh > PANES_NARROW_MAX:
            return False
        for pane, _, _ in panes:
            if pane not in self._narrow:
                self._narrow[pane] = self._stores(self._keys)
            if pane not in self._tables:
                self._tables[pane] = self._spare.pop() if self._spare else compiled.table()
        add_placed(
            rows, TS if len(panes) > 1 else None, [(self._tables[pane], begin, end) for pane, begin, end in panes]
        )
        filled: list[PaneKey] = []
        for pane, _, _ in panes:
            if pane not in self._last_end and self._tables[pane].is_empty:
                # the batch has rows before and after this pane: no window may be due for it
                del self._narrow[pane]
                self._recycle(pane)
            else:
                filled.append(pane)
                self._table_bytes[pane] = self._tables[pane].size_bytes
        self._register(filled)
        if sum(self._table_bytes.values()) > self._tables_bound.bytes_max:
            self._empty_tables()
        self._keep_within_budget()
        return True

    def _empty_tables(self) -> None:
        for pane in list(self._tables):
            self._settle(pane)
            self._free_table(pane)

    def _keep_within_budget(self) -> None:
        """Moves rows to local files while the slot holds more than its budget: tables move those that they get, but the
        panes of earlier batches have to as well. Raises UserError if there are no files."""
        if self._place.budget.limit_bytes is None:
            return
        self._account.memory_bytes = sum(self._table_bytes.values())
        if self._account.excess_bytes:
            self._empty_tables()
            self._account.memory_bytes = 0
        if self._place.budget.excess_bytes:
            for table in self._all_stores():
                table.shrink()

    def _all_stores(self) -> Iterator[Table]:
        for stores in (self._mixed, *self._narrow.values()):
            yield from stores

    def _settle(self, pane: PaneKey) -> None:
        """Moves the groups of a pane's table to its store."""
        if pane in self._tables:
            for frame in self._tables[pane].take():
                self._narrow[pane][0].add(frame)

    def _settle_all(self) -> None:
        for pane in self._tables:
            self._settle(pane)

    def _free_table(self, pane: PaneKey) -> GroupTable | None:
        self._table_bytes.pop(pane, None)
        return self._tables.pop(pane, None)

    def add_with_pane(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Adds working rows with PANE and SINCE columns. Returns their partial aggregates."""
        by = [PANE, SINCE, *self._keys]
        partials = [part.partial(rows, by) for part in self._layout.parts]
        self.add_partials(partials)
        return partials[0]

    def add_partials(self, parts: Sequence[pl.DataFrame]) -> None:
        """Adds partial frames with PANE and SINCE columns, one per part, that a combiner computed."""
        panes = parts[0].select(PANE, SINCE).unique().rows()
        self._register(panes)
        self._mixed_panes.update(panes)
        for store, frame in zip(self._mixed, parts, strict=True):
            store.add(frame)
        self._keep_within_budget()

    def _register(self, keys: Iterable[PaneKey]) -> None:
        fresh = [key for key in keys if key not in self._last_end]
        if not fresh:
            return
        panes = [pane for pane, _ in fresh]
        lasts = self._assigner.lasts(panes)
        last_ends = [end for _, end in lasts]
        self._last_end.update(zip(fresh, last_ends, strict=True))
        self._first_gone = min(self._first_gone, *last_ends)
        for pane, first_end in fresh:
            if pane not in self._since:
                self._since[pane] = []
                bisect.insort(self._starts, pane)
            self._since[pane].append(first_end)
        # windows that ended before `since` do not count these rows
        self._windows.add(self._assigner.firsts(panes, [since - 1 for _, since in fresh]), lasts)

    # ------------------------------------------------------------------ windows out

    @property
    def next_end(self) -> int | None:
        """End of the first window with rows that `take_due` has not returned yet. Called by any thread."""
        return self._windows.next_end

    def take_due(self, watermark: int) -> list[Span]:
        """Windows with rows that end at `watermark` + 1 or before, each returned once, by end, then start."""
        return self._windows.take(watermark)

    def over(self, key: PaneKey, watermark: int) -> list[Span]:
        """The windows of a pane of state that have ended at `watermark`, by end, then start."""
        pane, since = key
        windows = windows_of(self._assigner, pane, since - 1)
        return list(itertools.takewhile(lambda span: span[1] - 1 <= watermark, windows))

    def _panes_of(self, window: Span) -> list[PaneKey]:
        """The panes of state whose rows count in a window. A pane lies in a window if its start does, because windows
        begin and end at bounds of panes."""
        start, end = window
        inside = self._starts[bisect.bisect_left(self._starts, start) : bisect.bisect_left(self._starts, end)]
        return [(pane, since) for pane in inside for since in self._since[pane] if since <= end]

    def merged(
        self, windows: Sequence[Span], only: pl.DataFrame | None = None, *, gone: int = TIME_MIN
    ) -> Iterator[pl.DataFrame]:
        """Aggregates per window and group: WINDOW_START, WINDOW_END, keys, state columns. The windows must have rows.

        Ordered by the windows' end and start, then by key; of a window with many groups, which comes alone, in pieces
        by key hash, each ordered by key. only: a frame of keys, the groups to return; None: all. gone: panes that no
        window after it needs may be emptied; `drop_before` with the same watermark follows.
        """
        if len(windows) > 1 or not self._mixed_panes.isdisjoint(self._panes_of(windows[0])):
            return iter((self._merged_many(windows, only),))
        return self._merged_one(windows[0], only, gone)

    def _merged_one(self, window: Span, only: pl.DataFrame | None, gone: int) -> Iterator[pl.DataFrame]:
        panes = self._panes_of(window)
        start, end = window
        is_last = only is None and len(panes) == 1 and self._last_end[panes[0]] == end <= gone + 1
        pieces = self._taken(panes[0]) if is_last else None
        if pieces is None:
            tables = [[self._read(pane, index) for pane in panes] for index in range(len(self._layout.parts))]
            pieces = self._pieces(tables, only)
        for merged in pieces:
            yield (merged.sort(self._keys) if self._keys else merged).with_columns(
                pl.lit(start, dtype=pl.Int64).alias(WINDOW_START), pl.lit(end, dtype=pl.Int64).alias(WINDOW_END)
            )

    def _taken(self, pane: PaneKey) -> Iterator[pl.DataFrame] | None:
        """The groups of a pane that nobody needs later, out of the kernel's table, if all are there: they are merged,
        and need not be sorted into runs first. None: its store has rows."""
        if pane not in self._tables or len(self._layout.parts) > 1 or self._narrow[pane][0].rows:
            return None
        frames = self._tables[pane].take()
        if len(frames) == 1:
            return iter(frames)
        for frame in frames:
            self._narrow[pane][0].add(frame)
        return None

    def _pieces(self, tables: Sequence[Sequence[Table]], only: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
        """The merged rows of the tables of each part: all at once, or in pieces if there are many."""
        if only is not None and self._keys:
            yield self._fold([[rows for table in own for rows in table.get(only)] for own in tables], self._keys)
        elif not self._keys or self._fit_at_once([table for own in tables for table in own]):
            frames = [[rows for table in own for rows in table.frames()] for own in tables]
            is_merged = len(tables) == len(tables[0]) == 1 and tables[0][0].is_merged
            yield frames[0][0] if is_merged else self._fold(frames, self._keys)
        else:
            parts = [[part for table in own for part in table.sealed()] for own in tables]
            at = bounds([part for own in parts for part in own], self._place.budget.piece_bytes)
            for slices in zip(*(cut(own, at) for own in parts), strict=True):
                if slices[0]:
                    yield self._fold(slices, self._keys)
                    self._place.limit_pages()

    def _fit_at_once(self, tables: Sequence[Table]) -> bool:
        rows, size = sum(table.rows for table in tables), sum(table.bytes for table in tables)
        return rows <= PART_ROWS_MAX and size <= self._place.budget.piece_bytes

    def _read(self, pane: PaneKey, index: int) -> Table:
        """A pane's table, with the groups of its kernel's table, merged first if more than one window reads them."""
        self._settle(pane)
        table = self._narrow[pane][index]
        if table.rows and self._last_end[pane] > pane[1]:
            # the pane's last window ends later than its first one: merge once for all of them
            table.compact()
        return table

    def _merged_many(self, windows: Sequence[Span], only: pl.DataFrame | None) -> pl.DataFrame:
        pairs = [(*pane, *window) for window in windows for pane in self._panes_of(window)]
        named = dict.fromkeys((PANE, SINCE, WINDOW_START, WINDOW_END), pl.Int64)
        places = pl.DataFrame(pairs, schema=named, orient="row")
        panes = list(dict.fromkeys((pane, since) for pane, since, _, _ in pairs))
        # a cheap range filter before the join: most rows of the mixed store belong to other windows
        near = pl.col(PANE).is_between(min(pane for pane, _ in panes), max(pane for pane, _ in panes))
        parts: list[list[pl.DataFrame]] = []
        for index, mixed in enumerate(self._mixed):
            frames = [found for frame in mixed.frames() if (found := frame.filter(near)).height]
            for pane in panes:
                if pane in self._narrow:
                    frames += [placed(frame, pane) for frame in self._read(pane, index).frames()]
            # a pane of several windows repeats its rows, once per window
            chosen = [self._just(frame, only).join(places, on=[PANE, SINCE], how="inner") for frame in frames]
            parts.append([frame for frame in chosen if frame.height])
        by = [WINDOW_END, WINDOW_START, *self._keys]
        return self._fold(parts, by).sort(by)

    def _just(self, frame: pl.DataFrame, only: pl.DataFrame | None) -> pl.DataFrame:
        if only is None or not self._keys:
            return frame
        return frame.join(only, on=self._keys, how="semi", nulls_equal=True)

    def _fold(self, parts: Sequence[Sequence[pl.DataFrame]], by: list[str]) -> pl.DataFrame:
        """One row per group from the frames of all parts. Values are aggregated first."""
        frames = [*parts[0]]
        for values, frames_of in zip(self._layout.values, parts[1:], strict=True):
            if frames_of:
                frames += values.fold(values.merge(frames_of, by), by)
        return self._layout.merge(frames, by)

    def bounded(self, windows: Sequence[Span]) -> Iterator[list[Span]]:
        """Divides windows into runs to merge together, each with about `ROWS_MERGED_MAX` partial rows or fewer, or a
        single window. Large windows of narrow stores come alone, so that they are merged without pane columns."""
        # an estimate: the mixed store does not count rows by pane
        mixed_rows = self._mixed[0].rows // max(1, len(self._mixed_panes))
        run: list[Span] = []
        rows = 0
        for window in windows:
            panes = self._panes_of(window)
            weight = sum(self._rows_of(pane, mixed_rows) for pane in panes)
            is_alone = weight > _WINDOW_ROWS_LARGE and self._mixed_panes.isdisjoint(panes)
            if run and (is_alone or rows + weight > ROWS_MERGED_MAX):
                yield run
                run, rows = [], 0
            run.append(window)
            rows += weight
            if is_alone:
                yield run
                run, rows = [], 0
        if run:
            yield run

    def _rows_of(self, pane: PaneKey, mixed_rows: int) -> int:
        narrow = self._narrow[pane][0].rows if pane in self._narrow else 0
        narrow += self._tables[pane].groups if pane in self._tables else 0
        return narrow + (mixed_rows if pane in self._mixed_panes else 0)

    # ------------------------------------------------------------------ expiry of rows

    def drop_before(self, watermark: int) -> None:
        """Drops panes whose last window ends at `watermark` + 1 or before. `take_due` has returned all their windows.

        Rows in the mixed store are removed only when at least half of its panes are dropped, so that the cost of the
        scan per removed row stays low. Until then no window reads them.
        """
        self._windows.forget(watermark)
        if self._first_gone - 1 > watermark:
            return
        gone = [key for key, end in self._last_end.items() if end - 1 <= watermark]
        for key in gone:
            del self._last_end[key]
            self._narrow.pop(key, None)
            self._recycle(key)
            self._since[key[0]].remove(key[1])
            if not self._since[key[0]]:
                del self._since[key[0]]
        self._starts = sorted(self._since)
        self._first_gone = min(self._last_end.values(), default=TIME_MAX)
        self._mixed_gone += sum(key in self._mixed_panes for key in gone)
        if self._mixed_gone and 2 * self._mixed_gone >= len(self._mixed_panes):
            self._drop_mixed()

    def _recycle(self, pane: PaneKey) -> None:
        """Keeps the table of a dropped pane for the next one: its memory is in use already."""
        table = self._free_table(pane)
        if table is not None and not self._spare and table.size_bytes <= _SPARE_BYTES_MAX:
            table.clear()
            self._spare.append(table)

    def _drop_mixed(self) -> None:
        self._mixed_panes &= self._last_end.keys()
        self._mixed_gone = 0
        left = pl.DataFrame(list(self._mixed_panes), schema={PANE: pl.Int64, SINCE: pl.Int64}, orient="row")
        left = left.with_columns(pl.lit(value=True).alias(_LEFT))

        def kept(frame: pl.DataFrame) -> pl.Series:
            found = frame.select(PANE, SINCE).join(left, on=[PANE, SINCE], how="left", maintain_order="left")
            return found.get_column(_LEFT).fill_null(value=False)

        for store in self._mixed:
            store.retain(kept)

    # ------------------------------------------------------------------ snapshots

    def chunks(self) -> list[list[Chunk]]:
        """The chunks of each part, all rows with PANE and SINCE. They may include rows of dropped panes."""
        self._settle_all()
        self._account.memory_bytes = sum(self._table_bytes.values())
        left = ROWS_TIDIED_MAX
        made: list[list[Chunk]] = []
        for index, mixed in enumerate(self._mixed):
            for stores in (self._mixed, *self._narrow.values()):
                # `left` bounds the rows that are sealed over all stores of the snapshot
                left -= stores[index].tidy(left)
            chunks = mixed.chunks()
            for pane, stores in self._narrow.items():
                chunks += [PlacedChunk(chunk, pane) for chunk in stores[index].chunks()]
            made.append(chunks)
        return made

    def first_ends(self, watermark: int) -> dict[PaneKey, int]:
        """Pane of state -> end of its first window that has not ended at `watermark`, without panes that no window
        needs."""
        ends: dict[PaneKey, int] = {}
        for key, last in self._last_end.items():
            if last - 1 > watermark:
                pane, since = key
                ends[key] = self._assigner.first(pane, max(since - 1, watermark + 1))[1]
        return ends

    def whole(self, kept: Callable[[pl.DataFrame], pl.DataFrame]) -> list[pl.DataFrame]:
        """The rows of each part that `kept` returns of a frame, all or none of a key, merged into one frame, with PANE
        and SINCE. They may include rows of dropped panes."""
        self._settle_all()
        by = [PANE, SINCE, *self._keys]
        made: list[pl.DataFrame] = []
        for index, (part, mixed) in enumerate(zip(self._layout.parts, self._mixed, strict=True)):
            frames = [kept(frame) for frame in mixed.frames()]
            for pane, stores in self._narrow.items():
                frames += [placed(kept(frame), pane) for frame in stores[index].frames()]
            made.append(part.merge(frames, by) if frames else pl.DataFrame(schema=dict.fromkeys(by[:2], pl.Int64)))
        return made

    def restore(self, parts: Sequence[Iterable[RestoredFrame]], watermark: int) -> None:
        """Adds restored rows, per part, as they are read; may be called again with other rows. Drops panes that no
        window needs at `watermark`."""
        for index, frames in enumerate(parts):
            restoring: dict[Table, Restoring] = {}
            for each in frames:
                for table, rows in self._restored(each, index, watermark):
                    restoring.setdefault(table, Restoring(table)).add(rows)
            for rows_of_table in restoring.values():
                rows_of_table.end()
        self._keep_within_budget()

    def _restored(self, restored: RestoredFrame, index: int, watermark: int) -> Iterator[tuple[Table, RestoredFrame]]:
        """The rows of panes that are needed, with the tables that they go to. What loses no rows keeps its origin."""
        found = restored.frame.select(PANE, SINCE).unique().sort(PANE, SINCE).rows()
        alive = [key for key in found if self._assigner.last(key[0])[1] - 1 > watermark]
        if not alive:
            return
        rows = restored
        if len(alive) < len(found):
            wanted = pl.DataFrame(alive, schema={PANE: pl.Int64, SINCE: pl.Int64}, orient="row")
            rows = RestoredFrame(restored.frame.join(wanted, on=[PANE, SINCE], how="semi"))
        self._register(alive)
        fresh = sum(pane not in self._narrow for pane in alive)
        if len(self._narrow) + fresh > PANES_NARROW_MAX:
            self._mixed_panes.update(alive)
            yield self._mixed[index], rows
            return
        by_pane = rows.frame.partition_by(PANE, SINCE, include_key=False, as_dict=True)
        for (pane, since), own in by_pane.items():
            stores = self._narrow.setdefault((int(pane), int(since)), [])
            if not stores:
                stores += self._stores(self._keys)
            yield stores[index], RestoredFrame(own, rows.origin if len(by_pane) == 1 else None)
