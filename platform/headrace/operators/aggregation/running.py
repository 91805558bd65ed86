"""The running aggregate: no window, one row per touched key and batch with the values so far.

Its output edge is updating: the last row of a key replaces the earlier ones. A row's `__ts` is the greatest event time
aggregated for its key (NULL if the source has no time). No row is late. State grows with the number of keys, not with
the number of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.core.batch import ORDER_COLUMNS, TS
from headrace.core.keygroups import Hashes
from headrace.core.signals import TIME_MIN
from headrace.kernels.group.key_hash import key_hash
from headrace.operators.aggregates.columns import MAX
from headrace.operators.aggregates.compiled import TOTALS_BYTES_MAX, Totals
from headrace.operators.aggregates.exact.limbs import ROWS_MAX
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregates.needs import Order
from headrace.operators.aggregation.deltas import EarlierState, NothingEarlier, Place, Portion, Unit, of_round, rounds
from headrace.operators.aggregation.failures import RowFailures
from headrace.operators.aggregation.results import Results, StepShape
from headrace.operators.aggregation.snapshots import GROUPS, NO_WINDOW, SavedStates, StepTime
from headrace.operators.operator import Collector
from headrace.operators.row_errors import RowErrors
from headrace.state.place import StatePlace
from headrace.state.restoring import restore
from headrace.state.snapshot import Chunk, RestoredStates, StateSnapshot
from headrace.state.table import FRAMES_RECENT_MAX, FRAMES_SEARCHED_MAX, Table

LATEST = f"{MAX}ts"
"""State column: the greatest event time aggregated for a key."""


class RunningAggregate:
    """The operator of an aggregate without a window."""

    def __init__(self, shape: StepShape, errors: RowErrors, place: StatePlace, order: Order = "event") -> None:
        self._keys = [item.name for item in shape.keys]
        self._layout = Layout(shape.aggregates, shape.keys, order, latest=LATEST)
        self._failures = RowFailures(errors, shape.aggregates, timed=False)
        self._results = Results(shape, self._layout, errors, [], pl.lit(0))
        self._saved = SavedStates(shape.node, shape.keys, self._layout, GROUPS, NO_WINDOW)
        parts = zip(self._layout.parts, self._layout.state_names(GROUPS), strict=True)
        self._tables = [
            Table.merging(self._keys, partial(part.merge, by=self._keys), place.of_state(name)) for part, name in parts
        ]
        # with values a key has many rows, and its totals are more than a merge of them
        cached = self._keys if len(self._tables) == 1 else ()
        self._totals = Totals(cached, self._tables[0].get_sealed, place.budget.cache(TOTALS_BYTES_MAX))
        self._budget = place.budget
        self._account = place.account()
        self._earlier: EarlierState = NothingEarlier()
        self._buckets: dict[Place, None] = {}

    def on_batch(self, batch: pl.DataFrame, out: Collector) -> None:
        """Emits the new values of every key in the batch, in order of the keys."""
        self._results.input_ordered = ORDER_COLUMNS[0] in batch.columns
        passing = self._failures.passing(batch, out)
        if not passing.height:
            return
        totals: list[pl.DataFrame | None] = []
        touched: list[pl.DataFrame] = []
        # sums of limbs are exact up to this many rows
        for rows in passing.iter_slices(ROWS_MAX) if passing.height > ROWS_MAX else (passing,):
            working = self._layout.rows(rows)
            partials = [part.partial(working, self._keys) for part in self._layout.parts]
            touched.append(partials[0])
            # before the rows are added: the totals of a key include its earlier state
            self._take_earlier(partials[0])
            totals.append(self._updated(partials[0]))
            self._account.memory_bytes = self._totals.size_bytes
            frames_max = FRAMES_RECENT_MAX if self._totals.is_on else FRAMES_SEARCHED_MAX
            for table, frame in zip(self._tables, partials, strict=True):
                table.add(frame, frames_max=frames_max)
        merged = totals[0] if len(totals) == 1 else None
        if merged is None:
            keys = [frame.select(self._keys) for frame in touched]
            merged = self._merged(keys[0] if len(keys) == 1 else pl.concat(keys).unique())
        ordered = merged.sort(self._keys) if self._keys else merged
        self._results.emit(ordered.rename({LATEST: TS}), out)

    def _updated(self, partials: pl.DataFrame) -> pl.DataFrame | None:
        """The totals of keys with these partial rows, which are not in the table yet."""
        if self._totals.is_full:
            # the totals have the keys of all recent rows: they may be forgotten once the table finds these
            self._tables[0].seal()
            self._totals.forget()
        return self._totals.updated(partials)

    def on_watermark(self, watermark: int, out: Collector) -> int:
        """Passes the watermark on: only batches produce rows."""
        return watermark

    def snapshot(self) -> Sequence[StateSnapshot]:
        """Partial aggregates per key."""
        chunks = [table.chunks() for table in self._tables]
        return self._saved.states(chunks, StepTime(TIME_MIN, self._layout.arrived, self._results.input_ordered))

    def restore(self, states: RestoredStates) -> None:
        """Continues from snapshots. Raises UserError for state with other keys."""
        time = self._saved.time(states)
        self._layout.arrived = time.arrived
        self._results.input_ordered = time.ordered
        self._add(states)

    def _add(self, states: RestoredStates) -> None:
        for table, restored in zip(self._tables, self._saved.parts(states), strict=True):
            restore(table, restored)

    def resume(self, earlier: EarlierState) -> None:
        """Reads only the time; the state of a key is read when a row of that key arrives."""
        self.restore(earlier.take([unit for unit in earlier.units if not unit.place]))
        self._earlier = earlier
        # `earlier.crowded` is not needed: each bucket has one unit, so units do not become more numerous by writing
        self._buckets = dict.fromkeys(unit.place for unit in earlier.units)

    def portions(self) -> Iterator[Portion]:
        """One unit per key bucket, and a unit without a place for the time."""
        time = StepTime(TIME_MIN, self._layout.arrived, self._results.input_ordered)
        *_, saved_time = self._saved.states([[] for _ in self._tables], time)
        yield Portion((), (saved_time,))
        parts = [table.compact() if table.rows else pl.DataFrame() for table in self._tables]
        count = rounds(self._budget)
        for number in range(count):
            own = [of_round(part, self._keys, number, count) for part in parts]
            for place, cut in cut_by_bucket(own, self._keys, self._buckets):
                yield Portion(place, tuple(self._saved.states([[Chunk(0, rows)] for rows in cut], time)[:-1]))

    def _take_earlier(self, touched: pl.DataFrame) -> None:
        """Reads the earlier state of these keys, and of all keys in the same units."""
        units = self._earlier.units
        if units:
            buckets = touched_buckets(touched, self._keys, {unit.place for unit in units})
            self._take_units(unit for unit in units if unit.place in buckets)

    def _take_units(self, units: Iterable[Unit]) -> None:
        wanted = list(units)
        if wanted:
            self._add(self._earlier.take(wanted))

    def emit_all(self, out: Collector) -> None:
        """Emits the values of every key, in order of the keys."""
        parts = [table.frames() for table in self._tables]
        if not parts[0]:
            return
        merged = self._folded(parts)
        if LATEST not in merged.columns:
            # a savepoint of supplied values may have no time
            merged = merged.with_columns(pl.lit(None, dtype=pl.Int64).alias(LATEST))
        self._results.emit((merged.sort(self._keys) if self._keys else merged).rename({LATEST: TS}), out)

    def close(self) -> None:
        """Does nothing: all state is in memory."""

    def _merged(self, touched: pl.DataFrame) -> pl.DataFrame:
        """The merged groups of the touched keys."""
        return self._folded([table.get(touched) for table in self._tables])

    def _folded(self, parts: Sequence[list[pl.DataFrame]]) -> pl.DataFrame:
        """One row per group from the frames of all parts."""
        frames = parts[0]
        for values, found in zip(self._layout.values, parts[1:], strict=True):
            if found:
                frames += values.fold(values.merge(found, self._keys), self._keys)
        return self._layout.merge(frames, self._keys)


# ---- buckets ---------------------------------------------------------------------------------------------------------
# Keyed state in buckets by key hash, so that the state of some keys can be read without the rest. Pure.
#
# A bucket (modulus, number) holds the keys whose hash modulo `modulus` is `number`; `modulus` is a power of two. A
# bucket that has grown is written as two buckets of twice the modulus, so two buckets are either disjoint or nested.
# Without key columns there is one bucket.

BUCKET_ROWS_MAX = 4_096
"""Most rows of a bucket, over all states, before it is divided. A row of a key that is not in memory makes the operator
read the key's whole bucket, so this is about the most rows that one row makes it read."""
Indexes = npt.NDArray[np.int64]
Chosen = Sequence[Indexes]
"""For each part of the state, the indexes of the chosen rows."""
WHOLE: Place = (1, 0)
_MODULUS_MAX = 1 << 62


def touched_buckets(rows: pl.DataFrame, keys: Sequence[str], buckets: Collection[Place]) -> set[Place]:
    """The buckets that contain the keys of these rows."""
    if not keys:
        return set(buckets)
    hashes = key_hash(rows, keys)
    found: set[Place] = set()
    for modulus in {modulus for modulus, _ in buckets}:
        found |= {(modulus, int(number)) for number in np.unique(hashes & np.uint64(modulus - 1))}
    return found & set(buckets)


def cut_by_bucket(
    parts: Sequence[pl.DataFrame], keys: Sequence[str], buckets: Collection[Place]
) -> Iterator[tuple[Place, list[pl.DataFrame]]]:
    """Divides rows into buckets: (bucket, its rows of each part); every row is in one of them.

    buckets   those of the earlier state. Rows in none of them go to new buckets, with the greatest modulus of `buckets`
    """
    if not any(part.height for part in parts):
        return
    if not keys:
        yield WHOLE, list(parts)
        return
    apart = {each for each in buckets if not _inside(each, buckets)}
    hashes = [key_hash(part, keys) if part.height else np.empty(0, dtype=np.uint64) for part in parts]
    finest = max((modulus for modulus, _ in apart), default=1)
    for modulus in sorted({modulus for modulus, _ in apart} | {finest}):
        for number, rows in _by_number(hashes, modulus):
            place = (modulus, number)
            if place in apart or (modulus == finest and not _inside(place, apart)):
                for bucket, chosen in _divided(hashes, place, rows):
                    yield bucket, [_gathered(part, own) for part, own in zip(parts, chosen, strict=True)]


def _inside(bucket: Place, others: Collection[Place]) -> bool:
    """Whether the bucket is nested in one of the others that has a smaller modulus."""
    modulus, number = bucket
    coarser = modulus >> 1
    while coarser:
        if (coarser, number & (coarser - 1)) in others:
            return True
        coarser >>= 1
    return False


def _by_number(hashes: Sequence[Hashes], modulus: int) -> Iterator[tuple[int, Chosen]]:
    """(number of the bucket, its rows of each part), for one modulus."""
    numbers = [each & np.uint64(modulus - 1) for each in hashes]
    orders = [np.argsort(each, kind="stable") for each in numbers]
    sorted_numbers = [each[order] for each, order in zip(numbers, orders, strict=True)]
    for number in np.unique(np.concatenate(sorted_numbers)):
        yield (
            int(number),
            [
                order[np.searchsorted(each, number, "left") : np.searchsorted(each, number, "right")]
                for each, order in zip(sorted_numbers, orders, strict=True)
            ],
        )


def _divided(hashes: Sequence[Hashes], bucket: Place, rows: Chosen) -> Iterator[tuple[Place, Chosen]]:
    """The bucket with its rows, or the smaller buckets that it is divided into to keep within the size bound."""
    count = sum(len(each) for each in rows)
    if not count:
        return
    modulus, number = bucket
    if count <= BUCKET_ROWS_MAX or modulus >= _MODULUS_MAX or _one_key(hashes, rows):
        yield bucket, rows
        return
    upper = [(each[own] & np.uint64(modulus)) != 0 for each, own in zip(hashes, rows, strict=True)]
    lower = [own[~up] for own, up in zip(rows, upper, strict=True)]
    yield from _divided(hashes, (modulus * 2, number), lower)
    yield from _divided(hashes, (modulus * 2, number + modulus), [own[up] for own, up in zip(rows, upper, strict=True)])


def _one_key(hashes: Sequence[Hashes], rows: Chosen) -> bool:
    """Whether all rows have the same hash, so that no modulus divides them (the distinct values of one key)."""
    found = np.concatenate([each[own] for each, own in zip(hashes, rows, strict=True)])
    return bool((found == found[0]).all())


def _gathered(part: pl.DataFrame, rows: Indexes) -> pl.DataFrame:
    return part[pl.Series(rows.astype(np.uint32))] if part.height else part
