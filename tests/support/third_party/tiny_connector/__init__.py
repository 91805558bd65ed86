"""A connector in one file: counts upwards on the way in, appends text lines to a file on the way out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from headrace.connect.registry import Connector
from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.connect.source import (
    Enumerator,
    Polled,
    Reader,
    RowBatch,
    Run,
    SourceConfig,
    SourceContext,
    Split,
    SplitId,
)


class TinySource(SourceConfig):
    """The numbers 0 to `count` - 1, in one int64 column of any name."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"
    count: int = 10

    @property
    def bounded(self) -> bool:
        return True

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        return TinyEnumerator(Split(SplitId(context.node, 0), 0, self.count))

    def open_reader(self, context: SourceContext) -> Reader:
        return TinyReader(context)


class TinyEnumerator:
    """One split, known beforehand."""

    discovery_interval_ms: int | None = None

    def __init__(self, split: Split) -> None:
        self._split = split

    def discover(self) -> Sequence[Split]:
        return [self._split]

    def close(self) -> None:
        pass


class TinyReader:
    """Counts."""

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._left: dict[SplitId, Split] = {}
        self._paused: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        self._left |= {split.id: split for split in splits}

    def poll(self, timeout_ms: int) -> Polled:
        for split in self._left.values():
            assert split.stop is not None
            if split.start >= split.stop:
                del self._left[split.id]
                return Polled(finished=frozenset({split.id}))
            if split.id not in self._paused:
                end = min(split.stop, split.start + self._context.poll_rows_max)
                self._left[split.id] = split.starting_at(end)
                return Polled(self._batch(split, end), {split.id: end})
        time.sleep(timeout_ms / 1000)
        return Polled()

    def _batch(self, split: Split, end: int) -> RowBatch:
        positions = np.arange(split.start, end, dtype=np.int64)
        rows = pl.DataFrame({self._context.schema.names[0]: positions})
        return RowBatch(rows, positions, (Run(split.id, 0, len(positions)),))

    def pause(self, splits: Sequence[SplitId]) -> None:
        self._paused.update(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        self._paused.difference_update(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        pass

    def close(self) -> None:
        self._left.clear()


class TinySink(SinkConfig):
    """Appends each message as a line to `path`."""

    path: str

    def open_writer(self, context: SinkContext) -> Writer:
        return TinyWriter(Path(self.path))


class TinyWriter:
    """Keeps lines until a flush."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []

    def write(self, batch: SinkBatch) -> None:
        messages = pl.from_arrow(batch.messages)
        assert isinstance(messages, pl.Series)
        self._lines += messages.cast(pl.String).to_list()

    def flush(self, epoch: int) -> Sequence[Committable]:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in self._lines)
        self._lines.clear()
        return ()

    def close(self) -> None:
        self._lines.clear()


CONNECTOR = Connector(
    name="tiny",
    summary="Counts in, lines out",
    source=TinySource,
    sink=TinySink,
    example_source="tiny:\n  count: 3\nschema:\n  n: int64\n",
    example_sink="tiny:\n  path: out.txt\nformat: json\n",
)
