"""A range of a pipeline, run on its own with what its sinks would get."""

from __future__ import annotations

from pathlib import Path

import headrace
from headrace.connect.source import Split
from headrace.core.types import schema_of
from headrace.local.engine.collect_sink import Collection
from headrace.local.engine.rows_run import run_range
from headrace.plan.contexts import source_context
from headrace.plan.logical import plan_logical
from headrace.plan.physical import SourceSpec
from headrace.spec.pipeline import Pipeline


def counted(folder: Path) -> Pipeline:
    pipeline = headrace.Pipeline("counted", parallelism=2)
    rows = pipeline.source(
        "rows",
        generator={"rows": 100, "rate": 1e9, "seed": 1, "partitions": 2, "columns": {"n": {"sequence": {"start": 1}}}},
        schema={"n": "int64 not null"},
    )
    rows.sink("all", files={"path": str(folder / "all")}, format="json")
    rows.aggregate("total", aggregate={"rows": "count(*)"}).sink(
        "total_out", kafka={"brokers": "localhost:1", "topic": "t", "updates": "as_rows"}, format="json"
    )
    return pipeline.build()


def splits(pipeline: Pipeline) -> list[Split]:
    spec = next(node.spec for node in plan_logical(pipeline).nodes if isinstance(node.spec, SourceSpec))
    enumerator = spec.config.open_enumerator(source_context(spec, pipeline.name, 1000))
    try:
        return list(enumerator.discover())
    finally:
        enumerator.close()


def test_only_what_is_pinned_is_read_and_no_sink_is_opened(tmp_path: Path) -> None:
    pipeline = counted(tmp_path)
    first, second = splits(pipeline)
    every, total = Collection(), Collection()
    takers = {"all": every, "total_out": total}
    ran = run_range(pipeline, {"rows": [first.starting_at(first.start + 10), second]}, takers)
    assert every.rows == 90
    assert total.latest(schema_of({"rows": "int64"}), ()).to_dicts() == [{"rows": 90}]
    assert ran.progress.rows_in == 90
    assert not ran.floors
    assert not list(tmp_path.iterdir())
