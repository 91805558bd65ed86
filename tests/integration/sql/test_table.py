"""What ends in a table, for both deliveries and modes, on both databases, against plain Python."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.types import schema_of
from support.storage.sql_tables import Sink, Tables

SCHEMA = schema_of({"k": "string not null", "part": "int32 not null", "n": "int64", "x": "float64"})
DELIVERIES = ["at-least-once", "exactly-once"]


class Story:
    """Random batches, deletes and barriers, and what a dict makes of them."""

    def __init__(self, seed: int, *, upsert: bool) -> None:
        self._random = random.Random(seed)
        self._upsert = upsert
        self.appended: list[tuple[Any, ...]] = []
        self.last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._number = 0

    def rows(self) -> tuple[list[tuple[Any, ...]], list[bool]]:
        """A batch: keys come again and again, within it and across batches."""
        rows, deletes = [], []
        for _ in range(self._random.randint(0, 12)):
            self._number += 1
            key = (f"k'{self._random.randint(0, 6)}", self._random.randint(0, 1))
            row = (*key, self._number, self._random.choice([None, self._number / 8]))
            deleted = self._upsert and self._random.random() < 0.25
            rows.append(row)
            deletes.append(deleted)
            self.appended.append(row)
            self.last.pop(key, None)
            if not deleted:
                self.last[key] = row
        return rows, deletes

    @property
    def expected(self) -> list[tuple[Any, ...]]:
        return sorted(self.last.values() if self._upsert else self.appended, key=str)


def write_epochs(sink: Sink, story: Story, epochs: int) -> None:
    writer = sink.writer()
    for epoch in range(1, epochs + 1):
        for _ in range(3):
            rows, deletes = story.rows()
            # most batches come without the hidden column
            writer.write(sink.batch(rows, deletes if any(deletes) else None))
        committables = writer.flush(epoch)
        if sink.config.exactly_once:
            assert list(sink.commit(committables)) == []
            assert list(sink.commit([])) == []
            writer.committed(epoch, {})  # type: ignore[attr-defined]
    writer.close()


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("seed", [1, 2])
def test_epochs_of_random_rows(tables: Tables, delivery: str, mode: str, seed: int) -> None:
    upsert = mode == "upsert"
    sink = tables.sink(SCHEMA, delivery=delivery, mode=mode, key=["part", "k"] if upsert else None)
    story = Story(seed, upsert=upsert)

    write_epochs(sink, story, 5)

    assert sorted(tables.rows("results", "k, part, n, x"), key=str) == story.expected
    if sink.config.exactly_once:
        assert tables.count("results__headrace_staged") == 0
