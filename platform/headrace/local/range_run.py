"""Runs a pipeline over given splits of its sources and collects what its sinks would get. No sink is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connect.source import Split
from headrace.core.source_state import AppliedFloor
from headrace.local.job import LocalJob, Progress
from headrace.local.pinned_source import pinned_source
from headrace.local.rows_run import Output, compile_tapped
from headrace.local.substitute import with_taps
from headrace.spec.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class RangeRun:
    """A finished run. outputs: by sink, in memory; floors: where partitions were idle, for a run that is to give the
    same rows."""

    outputs: Mapping[str, Output]
    progress: Progress
    floors: tuple[AppliedFloor, ...]


def run_range(pipeline: Pipeline, splits: Mapping[str, Sequence[Split]]) -> RangeRun:
    """Runs to the splits' stops, in threads of this process, and closes every window. Raises what planning and the job
    raise."""
    pinned = {
        name: node.model_copy(update={"config": pinned_source(node.config, splits.get(name, ()))})
        for name, node in pipeline.sources.items()
    }
    changed, taps = with_taps(pipeline.model_copy(update={"sources": pinned}), (), keep_sinks=True)
    compiled, specs = compile_tapped(changed, taps)
    job = LocalJob(compiled.physical)
    job.run()
    outputs = {
        sink: Output(specs[sink].schema, specs[sink].update_key, collection) for sink, (_, collection) in taps.items()
    }
    return RangeRun(outputs, job.progress(), tuple(job.applied_floors()))
