"""Compares more rows than fit into memory: both sides are hash-partitioned into files ("piles") on local disk.

    batches ─> buffer ─full─> 64 piles by the hash of the row (or of its key, if rows update) ─> files
    pile n of one side, pile n of the other ─> compare_rows ─> one result of all

Equal rows are in piles of the same number, and so are all rows of a key, in their order. A pile that is still too large
for memory is partitioned again, with another seed of the hash.
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
"""Most bytes on disk (compressed) that are compared at once, both sides together."""
DEPTH_MAX = 4
"""Most divisions of a pile: rows that are still together afterwards are copies of the same row or key."""
_LENGTH_BYTES = 8
_PILE = "__pile"


class SpilledRows:
    """One side of a comparison. Several threads may call `add`; then one thread calls the other methods.

    folder   created with the first rows
    depth    number of earlier divisions of its rows; the seed of its hash
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
        """Adds rows, with or without hidden columns. Raises ExternalError if the disk is full."""
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
        # without key columns all rows have the same key, and go into one pile
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
                remedy="free disk space there, or set another folder for temporary files: TMPDIR",
            ) from cause

    def _path(self, pile: int) -> Path:
        return self._folder / f"{pile}.rows"

    def finished(self) -> SpilledRows:
        """Writes the buffered rows after the last `add`; returns this object."""
        with self._lock:
            self._spill()
        return self

    def size(self, pile: int) -> int:
        """The size of a pile on disk, in bytes."""
        path = self._path(pile)
        return path.stat().st_size if path.exists() else 0

    def standing(self, pile: int) -> pl.DataFrame:
        """The final rows of a pile, without hidden columns: the last one of each key, or all, except deletes."""
        if self._key is not None:
            return self._last(self._key, pile)
        batches = list(self._batches(pile))
        rows = concat_batches(batches) if batches else self.schema.empty()
        return rows.filter(~pl.col(OP)).drop(OP) if OP in rows.columns else rows

    def _last(self, key: Sequence[str], pile: int) -> pl.DataFrame:
        """The last row of each key. Merges batch by batch, because a pile may have far more rows than keys."""
        last = self.schema.empty()
        for batch in self._batches(pile):
            rows = concat_batches([last, batch])
            last = rows.unique(subset=list(key), keep="last", maintain_order=True) if key else rows.tail(1)
        return last_rows(last, key)

    def divided(self, pile: int) -> SpilledRows:
        """The rows of a pile as another SpilledRows, divided by another hash."""
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
    """The result of `compare_rows` over all rows of both sides, which must be finished.

    Deletes the files of divided piles.
    """
    # compares the types even if there are no rows
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
