"""Runs a pipeline in this process without its sinks: on rows in place of its sources (the results are collected), or
over fixed splits of its sources (the results go to receivers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from headrace.connect.source import Enumerator, SourceConfig, SourceContext, Split
from headrace.core.errors import UserError
from headrace.core.ids import split_output
from headrace.core.source_state import AppliedFloor
from headrace.core.types import Schema
from headrace.local.engine.collect_sink import Collection, CollectSink, RowTaker
from headrace.local.engine.compile import Compiled, compile_pipeline
from headrace.local.engine.job import LocalJob, Progress
from headrace.local.engine.pipeline_ends import Taps, with_rows, with_taps
from headrace.local.engine.quiet_source import QuietSource
from headrace.plan.physical import SinkSpec
from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Output:
    """The rows that reached a sink or a tap. `update_key` None: rows are appended."""

    schema: Schema
    update_key: tuple[str, ...] | None
    collection: Collection

    def frame(self) -> pl.DataFrame:
        """All rows in the order of arrival: every update, but no deletes."""
        return self.collection.frame(self.schema)

    def latest(self) -> pl.DataFrame:
        """The final rows: the last one of each key if rows update, otherwise all of them."""
        return self.frame() if self.update_key is None else self.collection.latest(self.schema, self.update_key)


@dataclass(frozen=True, slots=True)
class RowsRun:
    """A finished run on rows: its outputs by reference, its progress, and each node's counters."""

    outputs: Mapping[str, Output]
    progress: Progress
    counters: Mapping[str, Counter[str]]


def resized(pipeline: Pipeline, *, batch_rows: int | None = None, parallelism: int | None = None) -> Pipeline:
    """The pipeline with another batch size or another default parallelism; None: unchanged."""
    update: dict[str, object] = {}
    if batch_rows is not None:
        update["batch"] = pipeline.batch.model_copy(update={"max_rows": batch_rows})
    if parallelism is not None:
        update["parallelism"] = parallelism
    return pipeline.model_copy(update=update)


def run_on_rows(pipeline: Pipeline, rows: Mapping[str, pl.DataFrame], taps: Sequence[str] = ()) -> RowsRun:
    """Runs to the end. `rows`: source -> frame, as for `pipeline_ends.rows_source`; `taps`: nodes to collect beside the
    sinks.

    Raises UserError if a tap names an output that does not exist, and the errors of the job.
    """
    changed, collected = with_taps(with_rows(pipeline, rows), taps, keep_sinks=True)
    compiled, specs = compile_tapped(changed, collected)
    job = LocalJob(compiled.physical)
    job.run()
    outputs = {
        name: Output(specs[name].schema, specs[name].update_key, collection)
        for name, (_, collection) in collected.items()
    }
    return RowsRun(outputs, job.progress(), job.counters())


def compile_tapped(pipeline: Pipeline, taps: Taps) -> tuple[Compiled, dict[str, SinkSpec]]:
    """Compiles the result of `with_taps`; returns the plan and the planned sink of each reference.

    Raises UserError for a side output that does not exist.
    """
    compiled = compile_pipeline(pipeline)
    planned = {node.name: node.spec for node in compiled.logical.nodes}
    specs: dict[str, SinkSpec] = {}
    for reference, (sink, _) in taps.items():
        spec = planned.get(sink)
        if not isinstance(spec, SinkSpec):
            node, output = split_output(reference)
            remedy = "side outputs are `late` of a windowed aggregate and `bad` of a node with `on_error: divert`"
            raise UserError(f"{node} has no output {output!r}", remedy=remedy)
        specs[reference] = spec
    return compiled, specs


@dataclass(frozen=True, slots=True)
class RangeRun:
    """A finished run. floors: those that took effect; a replay needs them to produce the same rows."""

    progress: Progress
    floors: tuple[AppliedFloor, ...]


def run_range(pipeline: Pipeline, splits: Mapping[str, Sequence[Split]], takers: Mapping[str, RowTaker]) -> RangeRun:
    """Runs to the splits' stops, in threads of this process, and closes every window.

    splits: source -> its splits; takers: sink -> the receiver of its rows. Raises InvalidPipelineError and the errors
    of the job.
    """
    pinned = {
        name: node.model_copy(update={"config": pinned_source(node.config, splits.get(name, ()))})
        for name, node in pipeline.sources.items()
    }
    changed, _ = with_taps(pipeline.model_copy(update={"sources": pinned}), (), keep_sinks=True)
    sinks = {
        name: node.model_copy(update={"config": CollectSink(collection=takers[name])})
        for name, node in changed.sinks.items()
    }
    job = LocalJob(compile_pipeline(changed.model_copy(update={"sinks": sinks})).physical)
    job.run()
    return RangeRun(job.progress(), tuple(job.applied_floors()))


class PinnedSource(QuietSource):
    """Reads fixed splits of the inner source and publishes no positions, so that two engines read the same rows."""

    splits: tuple[Split, ...]

    @property
    def bounded(self) -> bool:
        """Whether every split has a stop."""
        return all(split.stop is not None for split in self.splits)

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Returns an enumerator of these splits."""
        return _Pinned(self.splits)


class PinnedStampedSource(PinnedSource):
    """A PinnedSource whose record timestamps may be the event time."""

    record_time: ClassVar[bool] = True


def pinned_source(config: SourceConfig, splits: Sequence[Split]) -> SourceConfig:
    """Returns the source, bound to these splits."""
    kind = PinnedStampedSource if type(config).record_time else PinnedSource
    return kind(inner=config, splits=tuple(splits))


class _Pinned:
    def __init__(self, splits: tuple[Split, ...]) -> None:
        self._splits = splits

    def discover(self) -> Sequence[Split]:
        """Returns the same splits on every call."""
        return self._splits

    @property
    def discovery_interval_ms(self) -> int | None:
        """None: never again."""
        return None

    def close(self) -> None:
        """Does nothing."""
