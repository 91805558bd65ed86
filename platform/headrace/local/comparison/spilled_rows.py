"""Many rows of two sides, compared with little memory: each side lies on local disk, in piles by a hash.

    batches ─> buffer ─full─> 64 piles by the hash of the row (or of its key, where rows update) ─> files
    pile n of one side, pile n of the other ─> compare_rows ─> one result of all

Rows that are equal lie in piles of the same number, and so do all rows of a key, in their order. A pile that is still
too large for memory is divided again, by another hash.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import polars as pl

from headrace.core.batch import OP, concat_batches
from headrace.core.errors import ExternalError
from headrace.core.last_rows import last_rows
from headrace.core.types import Schema
from headrace.local.comparison.row_equality import EXAMPLES, RowsCompared, all_compared, compare_rows

PILES = 64
BUFFER_BYTES = 32 * 1024 * 1024
PILE_BYTES_MAX = 128 * 1024 * 1024
"""Bytes on disk (they are compressed) of what is compared at a time, both sides together."""
DEPTH_MAX = 4
"""How often piles are divided: what is then left together is one row, many times."""
_LENGTH_BYTES = 8
_PILE = "__pile"


class SpilledRows:
    """One side. `add` may be called by several threads; then the rest, by one.

    folder   made when there are rows
    depth    how often its rows were divided before
    key      None: all rows count; else the last row of each key, unless it is a delete
    """

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        key: Sequence[str] | None,
        *,
        depth: int = 0,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.schema, self.depth = schema, depth
        self._folder, self._key = folder, key
        self._hashed = list(schema.names if key is None else key)
        self._buffer_max = buffer_bytes
        self._buffer: list[pl.DataFrame] = []
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, batch: pl.DataFrame) -> None:
        """Takes rows, with or without hidden columns. Raises ExternalError where the disk takes no more."""
        hidden = [OP] if OP in batch.columns else []
        rows = batch.select(*self.schema.names, *hidden)
        with self._lock:
            self._buffer.append(rows)
            self._bytes += int(rows.estimated_size())
            if self._bytes >= self._buffer_max:
                self._spill()

    def _spill(self) -> None:
        if not self._buffer:
            return
        rows = concat_batches(self._buffer)
        self._buffer, self._bytes = [], 0
        # a key of no columns is one key
        piles = pl.lit(rows.select(self._hashed).hash_rows(seed=self.depth) % PILES) if self._hashed else pl.lit(0)
        parts = rows.with_columns(piles.alias(_PILE)).partition_by(_PILE, as_dict=True, include_key=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for (number,), part in parts.items():
                with self._path(int(number)).open("ab") as file:
                    file.write(_packed(part))
        except OSError as cause:
            raise ExternalError(
                f"rows to be compared cannot be written to {self._folder}: {cause.strerror}",
                remedy="make room there, or choose another place for temporary files: TMPDIR",
            ) from cause

    def _path(self, pile: int) -> Path:
        return self._folder / f"{pile}.rows"

    def finished(self) -> SpilledRows:
        """This, when all rows were added."""
        with self._lock:
            self._spill()
        return self

    def size(self, pile: int) -> int:
        """Bytes of a pile on disk."""
        path = self._path(pile)
        return path.stat().st_size if path.exists() else 0

    def standing(self, pile: int) -> pl.DataFrame:
        """The rows of a pile that count, without hidden columns."""
        if self._key is not None:
            return self._last(self._key, pile)
        batches = list(self._batches(pile))
        rows = concat_batches(batches) if batches else self.schema.empty()
        return rows.filter(~pl.col(OP)).drop(OP) if OP in rows.columns else rows

    def _last(self, key: Sequence[str], pile: int) -> pl.DataFrame:
        """Folded batch by batch: a key may have had far more rows than there are keys."""
        last = self.schema.empty()
        for batch in self._batches(pile):
            rows = concat_batches([last, batch])
            last = rows.unique(subset=list(key), keep="last", maintain_order=True) if key else rows.tail(1)
        return last_rows(last, key)

    def divided(self, pile: int) -> SpilledRows:
        """A pile, as a side of its own."""
        inner = SpilledRows(
            self._folder / str(pile), self.schema, self._key, depth=self.depth + 1, buffer_bytes=self._buffer_max
        )
        for batch in self._batches(pile):
            inner.add(batch)
        self._path(pile).unlink(missing_ok=True)
        return inner.finished()

    def _batches(self, pile: int) -> Iterator[pl.DataFrame]:
        path = self._path(pile)
        if not path.exists():
            return
        with path.open("rb") as file:
            while length := file.read(_LENGTH_BYTES):
                yield pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "little"))))


def compare_spilled(
    expected: SpilledRows, actual: SpilledRows, *, pile_bytes_max: int = PILE_BYTES_MAX, examples: int = EXAMPLES
) -> RowsCompared:
    """As `compare_rows` of all of them. Both are finished; of piles that are divided nothing is left behind."""
    # tells of types, where there are no rows
    nothing = compare_rows(expected.schema.empty(), actual.schema.empty())
    return all_compared(chain([nothing], _compared(expected, actual, pile_bytes_max)), examples=examples)


def _compared(expected: SpilledRows, actual: SpilledRows, pile_bytes_max: int) -> Iterator[RowsCompared]:
    for pile in range(PILES):
        size = expected.size(pile) + actual.size(pile)
        if not size:
            continue
        if size > pile_bytes_max and expected.depth < DEPTH_MAX:
            yield from _compared(expected.divided(pile), actual.divided(pile), pile_bytes_max)
        else:
            yield compare_rows(expected.standing(pile), actual.standing(pile))


def _packed(rows: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    rows.write_ipc_stream(stream, compression="lz4")
    data = stream.getvalue()
    return len(data).to_bytes(_LENGTH_BYTES, "little") + data
