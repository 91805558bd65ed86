"""The heaviest keys and key groups of a subtask, from a sample of its input. Bounded in time and memory.

The keys of at most `ROWS_MAX` rows of one batch in `INTERVAL_MS` are counted by hash; the heaviest keys enter a sketch
(space-saving: `KEYS_MAX` keys with counts that are too high by at most the least of them). Counts are halved once
`HORIZON_ROWS` rows have been sampled, so that they describe the last seconds of a busy subtask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from headrace.core.clock import Clock
from headrace.core.keygroups import key_hash
from headrace.rpc.figures import HEAVY_MAX, HeavyGroup, HeavyKey, KeyFigures

INTERVAL_MS = 500
"""The least time between two samples."""
ROWS_MAX = 1_024
"""Most rows of a sample."""
KEYS_MAX = 64
"""Keys in the sketch."""
NEW_KEYS_MAX = 16
"""Most keys of one sample that enter the sketch: its heaviest."""
HORIZON_ROWS = 16_384
"""Sampled rows after which all counts are halved."""
TEXT_MAX = 60
"""Most characters of a key's text."""
_SPREAD = np.arange(ROWS_MAX) * 0.6180339887498949 % 1.0
"""Places of sampled rows in a batch: spread evenly, and without a period that rows could have too."""


class KeySample:
    """The sample of one subtask. `add` belongs to its thread, `figures` to any."""

    def __init__(self, task: str, keys: Sequence[tuple[str, ...]], max_parallelism: int, clock: Clock) -> None:
        """keys: the key columns of each input, by number. Figures name those of the first one."""
        self._task = task
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._clock = clock
        self._due_ms = 0
        self._rows = 0
        self._groups = np.zeros(max_parallelism, dtype=np.int64)
        self._counts: dict[str, int] = {}
        self._group_of: dict[str, int] = {}
        self.figures = KeyFigures(task=task, columns=keys[0], rows=0)
        """The heaviest keys and groups of the last samples."""

    def add(self, batch: pl.DataFrame, number: int = 0) -> None:
        """Samples the batch, of the input with this number, if a sample is due."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._due_ms or not batch.height:
            return
        self._due_ms = now_ms + INTERVAL_MS
        keys = self._keys[number]
        rows = _sampled(batch, keys)
        hashes = key_hash(rows, keys)
        groups = (hashes % np.uint64(self._max_parallelism)).astype(np.int64)
        self._groups += np.bincount(groups, minlength=self._max_parallelism)
        self._rows += rows.height
        _, firsts, counts = np.unique(hashes, return_index=True, return_counts=True)
        heaviest = np.argsort(-counts, kind="stable")[:NEW_KEYS_MAX]
        for place, count in zip(firsts[heaviest].tolist(), counts[heaviest].tolist(), strict=True):
            self._count(_text(rows.row(place)), count, int(groups[place]))
        if self._rows >= HORIZON_ROWS:
            self._halve()
        self.figures = self._made()

    def _count(self, key: str, rows: int, group: int) -> None:
        if key not in self._counts and len(self._counts) >= KEYS_MAX:
            least = min(self._counts, key=self._counts.__getitem__)
            rows += self._counts.pop(least)
            del self._group_of[least]
        self._counts[key] = self._counts.get(key, 0) + rows
        self._group_of[key] = group

    def _halve(self) -> None:
        self._rows //= 2
        self._groups //= 2
        self._counts = {key: rows // 2 for key, rows in self._counts.items()}

    def _made(self) -> KeyFigures:
        keys = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))[:HEAVY_MAX]
        groups = np.argsort(-self._groups, kind="stable")[:HEAVY_MAX].tolist()
        return KeyFigures(
            task=self._task,
            columns=self._keys[0],
            rows=self._rows,
            keys=tuple(HeavyKey(key=key, group=self._group_of[key], rows=rows) for key, rows in keys),
            groups=tuple(HeavyGroup(group=g, rows=int(self._groups[g])) for g in groups if self._groups[g]),
        )


def _sampled(batch: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The key columns of at most `ROWS_MAX` rows. By column, because each query on a frame waits for a thread of
    polars, of which a slot has one."""
    columns = [batch.get_column(key) for key in keys]
    if batch.height > ROWS_MAX:
        places = (_SPREAD * batch.height).astype(np.int64)
        columns = [column.gather(places) for column in columns]
    return pl.DataFrame(columns)


def _text(values: tuple[object, ...]) -> str:
    text = ", ".join("NULL" if value is None else str(value) for value in values)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 2] + ".."
