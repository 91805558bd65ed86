"""A source and a sink that a test plays by hand: rows and partitions appear when it says so; what the engine asks of
them is written down in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import ConfigDict

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext
from headrace.connect.source import Polled, RowBatch, Run, SourceConfig, SourceContext, Split, SplitId

SCHEMA = {"key": "string", "i": "int64", "ts": "timestamp"}
ScriptRow = tuple[int, int]
"""(event time in ms, number)"""


def nothing() -> None:
    """What a hook does unless a test says otherwise."""


@dataclass
class Script:
    """The log of a source, by partition, and what happened to the source.

    known   how many partitions can be found now
    ended   every partition is finished once it is read
    """

    rows: list[list[ScriptRow]]
    known: int
    ended: bool = False
    committed: list[dict[int, int]] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, partition: int, *rows: ScriptRow) -> None:
        with self.changed:
            self.rows[partition].extend(rows)
            self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()


class ScriptedSource(SourceConfig):
    """Reads a script. `whole`: what stands in it now, from the start, and that is all."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    script: Script
    whole: bool = False
    discovery_ms: int | None = None
    on_open: Callable[[], None] = nothing

    @property
    def bounded(self) -> bool:
        return self.whole

    def open_enumerator(self, context: SourceContext) -> ScriptedEnumerator:
        return ScriptedEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> ScriptedReader:
        self.on_open()
        self.script.opened += 1
        return ScriptedReader(self, context)


class ScriptedEnumerator:
    def __init__(self, config: ScriptedSource, context: SourceContext) -> None:
        self._config, self._node = config, context.node
        self.discovery_interval_ms = config.discovery_ms
        config.script.opened += 1

    def discover(self) -> Sequence[Split]:
        script = self._config.script
        stops = [len(rows) if self._config.whole else None for rows in script.rows]
        return [Split(SplitId(self._node, number), 0, stops[number]) for number in range(script.known)]

    def close(self) -> None:
        self._config.script.closed += 1


class ScriptedReader:
    def __init__(self, config: ScriptedSource, context: SourceContext) -> None:
        self._script, self._whole, self._rows_max = config.script, config.whole, context.poll_rows_max
        self._places: dict[SplitId, int] = {}
        self._finished: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        self._places |= {split.id: split.start for split in splits}

    def poll(self, timeout_ms: int) -> Polled:
        with self._script.changed:
            self._script.changed.wait_for(self._has_news, timeout_ms / 1000)
            batch, moved = self._next()
            ends = {split for split, at in self._places.items() if at == len(self._script.rows[split.partition])}
            finished = ends - self._finished if self._whole or self._script.ended else set[SplitId]()
            self._finished |= finished
        return Polled(batch, moved, frozenset(ends - self._finished), frozenset(finished))

    def _has_news(self) -> bool:
        lengths = {split: len(self._script.rows[split.partition]) for split in self._places}
        return any(at < lengths[split] for split, at in self._places.items()) or (
            (self._script.ended or self._whole) and len(self._finished) < len(self._places)
        )

    def _next(self) -> tuple[RowBatch | None, Mapping[SplitId, int]]:
        for split, at in self._places.items():
            rows = self._script.rows[split.partition][at : at + self._rows_max]
            if rows:
                self._places[split] = self._places.pop(split) + len(rows)
                positions = np.arange(at, at + len(rows), dtype=np.int64)
                return RowBatch(frame(rows), positions, (Run(split, 0, len(rows)),)), {split: at + len(rows)}
        return None, {}

    def pause(self, splits: Sequence[SplitId]) -> None: ...

    def resume(self, splits: Sequence[SplitId]) -> None: ...

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        self._script.committed.append({split.partition: at for split, at in positions.items()})

    def close(self) -> None:
        self._script.closed += 1


def frame(rows: Sequence[ScriptRow]) -> pl.DataFrame:
    """Rows of SCHEMA; the key is the last digit of the number."""
    times = pl.Series([ts * 1000 for ts, _ in rows], dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"key": [str(i % 10) for _, i in rows], "i": [i for _, i in rows], "ts": times})


@dataclass
class Output:
    """What reached a scripted sink. The hooks run in its writers' threads."""

    rows: list[int] = field(default_factory=list)
    flushed: int = 0
    opened: int = 0
    closed: int = 0
    on_open: Callable[[], None] = nothing
    on_write: Callable[[], None] = nothing
    on_flush: Callable[[], None] = nothing
    on_close: Callable[[], None] = nothing


class ScriptedSink(SinkConfig):
    """Keeps the numbers that arrive."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    output: Output

    def open_writer(self, context: SinkContext) -> ScriptedWriter:
        self.output.on_open()
        self.output.opened += 1
        return ScriptedWriter(self.output)


class ScriptedWriter:
    def __init__(self, output: Output) -> None:
        self._output = output

    def write(self, batch: SinkBatch) -> None:
        self._output.on_write()
        self._output.rows += batch.rows.get_column("i").to_list()

    def flush(self, epoch: int) -> Sequence[Committable]:
        self._output.on_flush()
        self._output.flushed = len(self._output.rows)
        return ()

    def close(self) -> None:
        self._output.closed += 1
        self._output.on_close()
