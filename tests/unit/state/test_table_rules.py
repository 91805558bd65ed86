"""Tables of every kind against plain dictionaries: random operations, with kernels and without, in memory and in files.

What a table returns, in which order, and what its chunks hold, must be the same in every way that it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.keygroups import key_hash
from headrace.kernels.group import key_hash as hashing
from headrace.kernels.state import key_index
from headrace.kernels.state import runs as kernel
from headrace.state import merging, row_groups, runs, table
from headrace.state.combine import ASKED, Append, Combine, Last, Merged, TableConfig
from headrace.state.combine import normal as normal_keys
from headrace.state.parquet import read_row_groups, write_chunks
from headrace.state.place import Budget, ImmediateMerges, StatePlace
from headrace.state.redistribute import share
from headrace.state.restoring import restore
from headrace.state.row_groups import KeyOrder
from headrace.state.snapshot import RestoredFrame, StateKind
from headrace.state.table import Table
from headrace.worker.state.local_files import LocalFiles
from headrace.worker.state.opened_place import BackgroundMerges

KEYS = ("name", "number")
BUCKET_MS = 10
TTL_MS = 20
SCHEMA = {
    "name": pl.String(),
    "number": pl.Float64(),
    "at": pl.Int64(),
    "slot": pl.Int64(),
    "sub": pl.Float64(),
    "value": pl.Float64(),
    "note": pl.String(),
    "written": pl.Int64(),
}


class Row(NamedTuple):
    name: str | None
    number: float | None
    at: int
    slot: int
    sub: float | None
    value: float | None
    note: str | None
    written: int


def sums(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    whole = pl.concat(frames, how="diagonal")
    return whole.group_by(*KEYS, "slot", maintain_order=True).agg(pl.col("at").sum(), pl.col("written").max())


def config(combine: Combine, *order: str, bucket: str | None = None, keys: Sequence[str] = KEYS) -> TableConfig:
    expires = not isinstance(combine, Merged)
    return TableConfig(tuple(keys), combine, order, bucket, "written", TTL_MS if expires else None)


KINDS = {
    "values": config(Last()),
    "entries": config(Last(), "at", "sub"),
    "timers": config(Last(), "at", "slot", bucket="slot"),
    "lists": config(Append(), "at"),
    "sides": config(Append(), "at", "slot", bucket="slot"),
    "sums": config(Merged(sums), bucket="slot", keys=(*KEYS, "slot")),
}
WAYS = ("kernels", "no kernels")

names = st.sampled_from([None, "", "a", "b", "more than twelve bytes", "x" * 100])
numbers = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan, -math.nan, math.inf, -math.inf])
texts = st.sampled_from([None, "", "note", "a note of more than twelve bytes"])
keys = st.tuples(names, numbers)
rows = st.tuples(names, numbers, st.integers(0, 45), numbers, numbers, texts)
adds = st.tuples(st.just("add"), st.lists(rows, min_size=1, max_size=10))
deletes = st.tuples(st.just("delete"), st.lists(rows, min_size=1, max_size=3), st.booleans())
reads = st.tuples(st.just("read"), st.lists(keys, max_size=6))
betweens = st.tuples(st.just("between"), st.lists(st.tuples(keys, st.integers(0, 45), st.none() | st.integers(0, 45))))
dues = st.tuples(st.sampled_from(["due", "drop"]), st.integers(0, 5))
ticks = st.tuples(st.just("tick"), st.integers(0, 15))
bare = st.tuples(st.sampled_from(["seal", "scan", "chunks"]))
budgets = st.sampled_from([None, 0, 4_000])
restores = st.tuples(st.just("restore"), st.sampled_from([1, 2, 3]), st.sampled_from([1, 5, 8]), budgets)
steps = st.lists(
    st.one_of(adds, adds, adds, deletes, reads, betweens, dues, ticks, bare, restores), min_size=1, max_size=30
)


@contextmanager
def computed_by(way: str, bits: int) -> Iterator[None]:
    """Small bounds, with kernels or without; hashes of a few bits."""
    small = [(table, {"ROWS_RECENT_MAX": 12, "FRAMES_SORTED_MAX": 3, "FRAMES_RECENT_MAX": 3})]
    small += [(runs, {"PART_ROWS_MAX": 6, "_SAMPLED_ROWS": 1, "MOVED_BYTES_MIN": 0})]
    small += [(runs, {"_ROWS_LEAST": 4, "RUNS_A_TIER": 3, "RUNS_MAX": 6})]
    with pytest.MonkeyPatch.context() as patched:
        for module, bounds in small:
            for name, bound in bounds.items():
                patched.setattr(module, name, bound)
        if way == "no kernels":
            for each in (key_index, hashing, merging):
                patched.setattr(each, "is_loaded", lambda: False)
            patched.setattr(kernel, "fits", lambda schema, keys: False)
        if bits < 64:
            mask = np.uint64((1 << bits) - 1)
            patched.setattr(row_groups, "key_hash", lambda rows, keys: key_hash(rows, keys) & mask)
        yield


def normal(number: float | None) -> float | str | None:
    """A number of a key: one zero, one NaN."""
    return "NaN" if number is not None and math.isnan(number) else None if number is None else number + 0.0


def rank(number: float | None) -> tuple[int, float]:
    """NULL first, NaN last."""
    return (0, 0.0) if number is None else (2, 0.0) if math.isnan(number) else (1, number + 0.0)


class Model:
    """What must be in a table, from definitions."""

    def __init__(self, kind: str) -> None:
        self.config = KINDS[kind]
        self.rows: list[Row] = []

    def key(self, row: Row) -> tuple[object, ...]:
        key = (row.name, normal(row.number))
        return (*key, row.slot) if "slot" in self.config.keys else key

    def identity(self, row: Row) -> tuple[object, ...]:
        return (*self.key(row), *(normal(getattr(row, name)) for name in self.config.order))

    def add(self, batch: Sequence[Row]) -> None:
        for row in batch:
            match self.config.combine:
                case Append():
                    self.rows.append(row)
                case Last():
                    self.delete([row], entries=True)
                    self.rows.append(row)
                case Merged():
                    same = [each for each in self.rows if self.key(each) == self.key(row)]
                    self.rows = [each for each in self.rows if self.key(each) != self.key(row)]
                    at, written = sum(each.at for each in same), [each.written for each in same]
                    self.rows.append(row._replace(at=row.at + at, written=max([*written, row.written])))

    def delete(self, batch: Sequence[Row], *, entries: bool) -> None:
        same = self.identity if entries else self.key
        gone = {same(row) for row in batch}
        self.rows = [row for row in self.rows if same(row) not in gone]

    def found(self, asked: Sequence[tuple[str | None, float | None]], now: int) -> list[tuple[int, Row]]:
        found: list[tuple[int, Row]] = []
        for number, (name, value) in enumerate(asked):
            own = [row for row in self.living(now) if (row.name, normal(row.number)) == (name, normal(value))]
            found += [(number, row) for row in sorted(own, key=self._rank)]
        return found

    def _rank(self, row: Row) -> tuple[object, ...]:
        return tuple(rank(getattr(row, name)) for name in self.config.order)

    def living(self, now: int) -> list[Row]:
        ttl = self.config.ttl_ms
        return [row for row in self.rows if ttl is None or row.written + ttl > now]


class Played:
    """Tables of all subtasks of a step, beside a model of them. seen: all that they returned, in this order."""

    def __init__(self, kind: str, files: LocalFiles, *, background: bool) -> None:
        self.model = Model(kind)
        self._files = files
        self._background = background
        self._tables = [self._opened(8, None)]
        self._numbers: list[dict[int, pl.DataFrame]] = [{}]
        self._max_parallelism = 8
        self._now = 0
        self.seen: list[str] = []

    def _opened(self, max_parallelism: int, budget_bytes: int | None) -> Table:
        merges = BackgroundMerges() if self._background else ImmediateMerges()
        files = None if budget_bytes is None else self._files
        return Table(self.model.config, StatePlace(max_parallelism, Budget(budget_bytes), merges, files))

    # ---- operations

    def play(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, f"_{name}")(*arguments)

    def _rows(self, drawn: Sequence[tuple[Any, ...]]) -> list[Row]:
        return [
            Row(name, number, at, at // BUCKET_MS, sub, value, note, self._now)
            for name, number, at, sub, value, note in drawn
        ]

    def _add(self, drawn: Sequence[tuple[Any, ...]]) -> None:
        batch = self._rows(drawn)
        self.model.add(batch)
        for subtask, made in enumerate(self._tables):
            made.add(self._merged(self._own(frame(batch), subtask)))

    def _merged(self, rows: pl.DataFrame) -> pl.DataFrame:
        """A frame of partial rows has a row per key, in an order of its own."""
        if not isinstance(self.model.config.combine, Merged) or not rows.height:
            return rows
        return sums([normal_keys(rows, KEYS)]).sort("name", "number", "slot")

    def _delete(self, drawn: Sequence[tuple[Any, ...]], entries: bool) -> None:
        if isinstance(self.model.config.combine, Merged) or (self.model.config.bucket and not entries):
            return
        batch = self._rows(drawn)
        is_append = isinstance(self.model.config.combine, Append)
        if is_append and self.model.config.bucket:
            return
        entries = entries and not is_append
        self.model.delete(batch, entries=entries)
        chosen = [*KEYS, *(self.model.config.order if entries else ()), "written"]
        for subtask, made in enumerate(self._tables):
            if (own := self._own(frame(batch), subtask)).height:
                made.delete(own.select(chosen))

    def _read(self, asked: Sequence[tuple[str | None, float | None]]) -> None:
        if isinstance(self.model.config.combine, Merged):
            return
        keys = pl.DataFrame(asked, schema={name: SCHEMA[name] for name in KEYS}, orient="row")
        self._compare([made.read(keys, at=self._now) for made in self._tables], self.model.found(asked, self._now))

    def _between(self, drawn: Sequence[tuple[tuple[str | None, float | None], int, int | None]]) -> None:
        if not self.model.config.order:
            return
        asked = [key for key, _, _ in drawn]
        low = pl.Series([low for _, low, _ in drawn], dtype=pl.Int64)
        high = pl.Series([high for _, _, high in drawn], dtype=pl.Int64)
        expected = [
            (number, row)
            for number, row in self.model.found(asked, self._now)
            if (most := high[number]) is not None and low[number] <= row.at <= most
        ]
        keys = pl.DataFrame(asked, schema={name: SCHEMA[name] for name in KEYS}, orient="row")
        self._compare([made.between(keys, low, high, at=self._now) for made in self._tables], expected)

    def _compare(self, frames: Sequence[pl.DataFrame], expected: Sequence[tuple[int, Row]]) -> None:
        found = [(number, row) for each in frames if each.height for number, row in self._numbered(each)]
        # each key is in one table, whose rows of it are in order
        found.sort(key=lambda item: item[0])
        assert repr(found) == repr([(number, self._normal(row)) for number, row in expected])
        self.seen.append(repr(found))

    def _numbered(self, rows: pl.DataFrame) -> Iterator[tuple[int, Row]]:
        yield from zip(rows.get_column(ASKED), map(self._normal, rows_in(rows)), strict=True)

    def _normal(self, row: Row) -> Row:
        """Key and order columns in normal form."""
        plain = {name: getattr(row, name) for name in (*KEYS, *self.model.config.order)}
        changed: dict[str, Any] = {
            name: math.nan if normal(value) == "NaN" else value + 0.0
            for name, value in plain.items()
            if isinstance(value, float)
        }
        return row._replace(**changed)

    def _due(self, bucket: int) -> None:
        if self.model.config.bucket is not None:
            frames = [rows for made in self._tables for rows in made.due(bucket)]
            self._same_rows(frames, [row for row in self.model.rows if row.slot <= bucket])

    def _drop(self, bucket: int) -> None:
        if self.model.config.bucket is not None:
            for made in self._tables:
                made.drop(bucket)
            self.model.rows = [row for row in self.model.rows if row.slot > bucket]

    def _scan(self) -> None:
        self._same_rows([rows for made in self._tables for rows in made.scan(at=self._now)], self.model.rows)

    def _same_rows(self, frames: Sequence[pl.DataFrame], expected: Sequence[Row]) -> None:
        """The same rows in any order. Expired ones may still be there, or not."""
        known = self.model.living(self._now)
        found = [self._normal(row) for rows in frames for row in rows_in(rows)]
        expired = [row for row in found if self._is_expired(row)]
        assert sorted(repr(row) for row in found if not self._is_expired(row)) == sorted(
            repr(self._shown(row)) for row in expected if row in known or not self._is_expired(row)
        )
        assert not {repr(row) for row in expired} - {repr(self._shown(row)) for row in expected}

    def _shown(self, row: Row) -> Row:
        row = self._normal(row)
        merged = isinstance(self.model.config.combine, Merged)
        return row._replace(sub=None, value=None, note=None) if merged else row

    def _is_expired(self, row: Row) -> bool:
        ttl = self.model.config.ttl_ms
        return ttl is not None and row.written + ttl <= self._now

    def _tick(self, by: int) -> None:
        self._now += by
        for made in self._tables:
            made.expire(self._now)
            if self.model.config.ttl_ms is not None and not self._background:
                bound = pl.lit(self._now - 2 * TTL_MS)
                kept = [rows.select((pl.col("written") > bound).all()).item() for rows in made.frames()]
                assert all(kept), "no row outlives two ttl"

    def _seal(self) -> None:
        for made in self._tables:
            made.seal()

    def _chunks(self) -> None:
        for made, seen in zip(self._tables, self._numbers, strict=True):
            for chunk in made.chunks():
                assert seen.setdefault(chunk.id, chunk.frame).equals(chunk.frame), "a number means the same rows"
                if not self._background:
                    self.seen.append(repr((chunk.id, chunk.frame.columns, [repr(row) for row in chunk.frame.rows()])))

    def _restore(self, parallelism: int, max_parallelism: int, budget_bytes: int | None) -> None:
        """As from state files, whose frames come in any order."""
        stored: list[pl.DataFrame] = []
        order = KeyOrder(self.model.config.keys, self._max_parallelism)
        for made in self._tables:
            files = write_chunks(made.chunks(), order)
            stored += [rows for file in files for rows in read_row_groups(file.data)]
        self._tables = [self._opened(max_parallelism, budget_bytes) for _ in range(parallelism)]
        self._numbers, self._max_parallelism = [{} for _ in range(parallelism)], max_parallelism
        for subtask, made in enumerate(self._tables):
            made.expire(self._now)
            restore(made, (RestoredFrame(self._own(rows, subtask)) for rows in reversed(stored)))

    def _own(self, rows: pl.DataFrame, subtask: int) -> pl.DataFrame:
        return share(rows, StateKind.KEYED, KEYS, subtask, len(self._tables), max(3, self._max_parallelism))


def frame(batch: Sequence[Row]) -> pl.DataFrame:
    return pl.DataFrame(batch, schema=SCHEMA, orient="row")


def rows_in(rows: pl.DataFrame) -> Iterator[Row]:
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in SCHEMA.items() if name not in rows.columns]
    yield from map(Row._make, rows.with_columns(absent).select(*SCHEMA).rows())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> LocalFiles:
    return LocalFiles(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("kind", KINDS)
@given(steps, st.sampled_from([8, 64]), st.booleans())
def test_a_table_holds_what_its_rules_say(
    files: LocalFiles, kind: str, steps: Sequence[tuple[Any, ...]], bits: int, background: bool
) -> None:
    seen: list[list[str]] = []
    for way in WAYS:
        with computed_by(way, bits):
            played = Played(kind, files, background=background)
            for step in [*steps, ("chunks",), ("scan",), ("due", 5)]:
                played.play(step)
            seen.append(played.seen)
    assert seen[0] == seen[1], "with kernels and without"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_texts_of_a_megabyte(files: LocalFiles, kind: str, way: str) -> None:
    long = "x" * 1_000_000
    batch = [(long + end, 0.5, at, None, 1.0, long + "note") for end in ("", "a", "b") for at in (0, 10)]
    asked = [(long, 0.5), (long + "b", 0.5), (long + "c", 0.5)]
    with computed_by(way, 64):
        played = Played(kind, files, background=False)
        for step in [("add", batch), ("add", batch[1:]), ("restore", 2, 5, 0), ("read", asked), ("scan",)]:
            played.play(step)
