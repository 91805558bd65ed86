"""Runs a pipeline over given splits of its sources, and passes the rows of its sinks to receivers. Opens no sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headrace.connect.source import Enumerator, SourceConfig, SourceContext, Split
from headrace.core.source_state import AppliedFloor
from headrace.local.engine.collect_sink import CollectSink, RowTaker
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LocalJob, Progress
from headrace.local.engine.pipeline_ends import with_taps
from headrace.local.engine.quiet_source import QuietSource
from headrace.spec.pipeline import Pipeline


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
    """Reads given splits of the inner source and publishes no positions, so that two engines read the same rows."""

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
