"""Replaces the ends of a pipeline: rows in place of sources, collections in place of sinks, taps at any node. Pure.

Callers check the original pipeline first: a collection accepts rows that the real sink may reject, such as updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import polars as pl
from pydantic import ConfigDict

from headrace.connect.metadata import METADATA
from headrace.connect.source import (
    Enumerator,
    Offsets,
    Polled,
    Reader,
    RowBatch,
    Run,
    SourceConfig,
    SourceContext,
    Split,
    SplitId,
)
from headrace.core.errors import UserError, did_you_mean
from headrace.core.ids import split_output
from headrace.core.types import Field, Schema, polars_type
from headrace.local.engine.collect_sink import Collection, CollectSink
from headrace.operators.operator import BAD, OnError
from headrace.plan.error_policy import policy_of
from headrace.spec.pipeline import Pipeline, SinkNode, SourceNode, StepNode
from headrace.spec.rows import PARTITION_KEY, TIMESTAMP_KEY

CONNECTOR = "rows"
_TAP = "tap"

Taps = Mapping[str, tuple[str, Collection]]
"""Reference -> (name of the collecting sink, its collection)."""


def input_schema(node: SourceNode) -> Schema:
    """The columns of a row for this source: its own columns and the metadata columns after them.

    Rows may omit metadata columns: topic, partition and offset then follow from the row's place.
    """
    metadata = node.config.metadata_columns.items()
    return Schema((*node.decoded, *(Field(column, METADATA[kind].type) for kind, column in metadata)))


def rows_source(name: str, node: SourceNode, rows: pl.DataFrame) -> SourceNode:
    """Source `name` with `rows` in place of its connector.

    `rows` has the columns of `input_schema` and may have `$timestamp` (epoch ms) and `$partition`. Without
    `$partition` all rows are in partition 0. Without `$timestamp` the record timestamp is 0, if it is the event time.
    """
    record_time = type(node.config).record_time
    kind = StampedRowsSource if record_time else RowsSource
    place = rows.get_column(PARTITION_KEY).fill_null(0) if PARTITION_KEY in rows.columns else None
    count = 1 if place is None or not rows.height else int(place.cast(pl.Int64).to_numpy().max()) + 1
    frames = [rows] if place is None else [rows.filter(place == number) for number in range(count)]
    config = kind(
        partitions=tuple(_with_metadata(frame, name, number, node) for number, frame in enumerate(frames)),
        stamps=tuple(_stamps(frame, record_time=record_time) for frame in frames),
    )
    return node.model_copy(
        update={
            "connector": CONNECTOR,
            "config": config,
            "format": None,
            "key_format": None,
            "key_schema": None,
            "columns": input_schema(node),
            "on_error": policy_of(node.on_error),
        }
    )


def _with_metadata(frame: pl.DataFrame, name: str, partition: int, node: SourceNode) -> pl.DataFrame:
    """The visible columns; metadata columns without a value are filled from the row's place and timestamp."""
    schema = input_schema(node)
    known: dict[str, pl.Expr] = {
        "topic": pl.lit(name),
        "partition": pl.lit(partition),
        "offset": pl.int_range(pl.len()),
    }
    if TIMESTAMP_KEY in frame.columns:
        known["timestamp"] = pl.from_epoch(pl.col(TIMESTAMP_KEY), time_unit="ms").dt.replace_time_zone("UTC")
    filled = []
    for kind, column in node.config.metadata_columns.items():
        if kind in known:
            value = known[kind].cast(polars_type(schema.field(column).type))
            given = pl.col(column) if column in frame.columns else pl.lit(None)
            filled.append(pl.coalesce(given, value).alias(column))
    hidden = [key for key in (PARTITION_KEY, TIMESTAMP_KEY) if key in frame.columns]
    return frame.with_columns(filled).drop(hidden)


def _stamps(frame: pl.DataFrame, *, record_time: bool) -> pl.Series | None:
    if TIMESTAMP_KEY in frame.columns:
        return frame.get_column(TIMESTAMP_KEY).cast(pl.Int64).fill_null(0).rechunk()
    return pl.zeros(frame.height, dtype=pl.Int64, eager=True) if record_time else None


def with_rows(pipeline: Pipeline, rows: Mapping[str, pl.DataFrame]) -> Pipeline:
    """The pipeline with rows in place of every source's connector; a source that `rows` does not have is empty."""
    sources = {
        name: rows_source(name, node, rows[name] if name in rows else input_schema(node).empty())
        for name, node in pipeline.sources.items()
    }
    return pipeline.model_copy(update={"sources": sources})


def with_taps(
    pipeline: Pipeline, references: Sequence[str], *, keep_sinks: bool, rows_max: int | None = None
) -> tuple[Pipeline, Taps]:
    """The pipeline with collecting sinks: one at each reference (a node, a sink, or `node.late`, `node.bad`).

    With `keep_sinks` every sink is collected, also without a reference. A sink whose output `bad` is read is collected
    too, and that output stays empty. Raises UserError for a reference to an unknown node; an unknown side output is
    only found in planning (`rows_run.compile_tapped`).
    """
    sinks: dict[str, SinkNode] = {}
    taps: dict[str, tuple[str, Collection]] = {}
    read = {split_output(each)[0] for each in (*references, *_inputs(pipeline))}
    for name, node in pipeline.sinks.items():
        if keep_sinks or name in read:
            taps[name] = (name, Collection(rows_max))
            sinks[name] = _collecting(node.from_, taps[name][1], node)
    for reference in dict.fromkeys(references):
        if reference not in taps:
            check_reference(pipeline, reference)
            taken = {*pipeline.sources, *pipeline.steps, *pipeline.sinks, *sinks}
            name = next(f"{_TAP}_{n}" for n in range(len(taken) + 1) if f"{_TAP}_{n}" not in taken)
            taps[reference] = (name, Collection(rows_max))
            sinks[name] = _collecting(reference, taps[reference][1])
    changed: dict[str, object] = {
        "sources": {name: _diverting(node) for name, node in pipeline.sources.items()},
        "steps": {name: _diverting_step(node) for name, node in pipeline.steps.items()},
        "sinks": sinks,
    }
    return pipeline.model_copy(update=changed), taps


def _inputs(pipeline: Pipeline) -> Iterator[str]:
    for step in pipeline.steps.values():
        yield from step.inputs
    yield from (sink.from_ for sink in pipeline.sinks.values())


def _diverting(node: SourceNode) -> SourceNode:
    # a test writes no dead letters: their rows are diverted to `<node>.bad`
    return node.model_copy(update={"on_error": policy_of(node.on_error)})


def _diverting_step(node: StepNode) -> StepNode:
    return node.model_copy(update={"on_error": policy_of(node.on_error)})


def _collecting(reference: str, collection: Collection, node: SinkNode | None = None) -> SinkNode:
    """A collecting sink. In place of a sink (`node`) it keeps the parallelism and partitioning of that sink."""
    return SinkNode(
        from_=reference,
        connector="collect",
        config=CollectSink(collection=collection),
        parallelism=None if node is None else node.parallelism,
        partition=None if node is None else node.partition,
        on_error=OnError.FAIL if node is None else policy_of(node.on_error),
    )


def check_reference(pipeline: Pipeline, reference: str) -> None:
    """Raises UserError if `reference` names no node of the pipeline; the remedy suggests the nearest name."""
    names = (*pipeline.sources, *pipeline.steps, *pipeline.sinks)
    node, output = split_output(reference)
    if node not in names:
        hint = did_you_mean(node, names)
        valid = f"nodes: {', '.join(names)}"
        raise UserError(f"there is no node {node!r}", remedy=f"{hint} {valid}" if hint else valid)
    if output is not None and node in pipeline.sinks and not _diverts(pipeline.sinks[node], output):
        raise UserError(f"{node} is a sink and has no output {output!r}")


def _diverts(sink: SinkNode, output: str) -> bool:
    return output == BAD and policy_of(sink.on_error) is OnError.DIVERT


class RowsSource(SourceConfig):
    """Rows in memory, by partition, in place of a real source; `spec.rows` defines how test rows are written.

    `partitions[i]`: rows of partition i; `stamps[i]`: their timestamps (epoch ms), if known.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    partitions: tuple[pl.DataFrame, ...]
    stamps: tuple[pl.Series | None, ...]

    @property
    def bounded(self) -> bool:
        """True: the source ends after the last row, so that windows close."""
        return True

    def describe_position(self, split: SplitId, position: int) -> str:
        """`input row 3`, counted from 1; with the partition if it is not the first."""
        place = f" of partition {split.partition}" if split.partition else ""
        return f"input row {position + 1}{place}"

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """The enumerator: one split for each partition."""
        return _Enumerator(self, context.node)

    def open_reader(self, context: SourceContext) -> Reader:
        """The reader of one subtask."""
        return _Reader(self, context.poll_rows_max)


class StampedRowsSource(RowsSource):
    """A RowsSource whose record timestamps are the event time."""

    record_time: ClassVar[bool] = True


class _Enumerator:
    discovery_interval_ms: int | None = None

    def __init__(self, config: RowsSource, node: str) -> None:
        self._splits = [Split(SplitId(node, i), 0, rows.height) for i, rows in enumerate(config.partitions)]

    def discover(self) -> Sequence[Split]:
        """All partitions."""
        return self._splits

    def close(self) -> None:
        """Holds nothing."""


class _Reader:
    """Reads the partitions in turn: each poll returns one batch of one partition."""

    def __init__(self, config: RowsSource, rows_max: int) -> None:
        self._config = config
        self._rows_max = rows_max
        self._places: dict[SplitId, int] = {}
        self._empty: set[SplitId] = set()
        self._paused: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions."""
        for split in splits:
            if split.start < self._height(split.id):
                self._places[split.id] = split.start
            else:
                self._empty.add(split.id)

    def poll(self, timeout_ms: int) -> Polled:
        """The next batch; never waits."""
        finished, self._empty = set(self._empty), set()
        split = next((split for split in self._places if split not in self._paused), None)
        if split is None:
            return Polled(finished=frozenset(finished))
        begin = self._places.pop(split)
        end = min(begin + self._rows_max, self._height(split))
        if end < self._height(split):
            self._places[split] = end
        else:
            finished.add(split)
        return Polled(self._batch(split, begin, end), {split: end}, finished=frozenset(finished))

    def _batch(self, split: SplitId, begin: int, end: int) -> RowBatch:
        stamps = self._config.stamps[split.partition]
        times: Offsets | None = None if stamps is None else stamps[begin:end].to_numpy()
        return RowBatch(
            rows=self._config.partitions[split.partition][begin:end],
            positions=np.arange(begin, end, dtype=np.int64),
            runs=(Run(split, 0, end - begin),),
            timestamps=times,
        )

    def _height(self, split: SplitId) -> int:
        return self._config.partitions[split.partition].height

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Returns no rows of these partitions until `resume`."""
        self._paused |= set(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues with these partitions."""
        self._paused -= set(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing: positions are not stored."""

    def close(self) -> None:
        """Holds nothing."""
