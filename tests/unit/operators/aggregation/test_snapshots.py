"""State of aggregates as it is restored: frames keep their origin as long as all of their columns are needed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.types import schema_of
from headrace.expr.compiler import compile_aggregates
from headrace.operators.aggregate import AggregateConfig
from headrace.operators.aggregates.layout import Layout
from headrace.operators.aggregation.running import LATEST
from headrace.operators.aggregation.snapshots import GROUPS, NO_WINDOW, SavedStates
from headrace.state.snapshot import RestoredFrame, StoredFile, StoredRows
from support.oracles.collector import Collected

INPUT = schema_of({"key": "string", "x": "int64"})


def saved(aggregates: dict[str, str]) -> SavedStates:
    """The states of a running aggregate."""
    keys = [field for field in INPUT if field.name == "key"]
    layout = Layout(list(compile_aggregates(aggregates, INPUT, ["key"])), keys, latest=LATEST)
    return SavedStates("step", keys, layout, GROUPS, NO_WINDOW)


def frames(aggregates: dict[str, str]) -> Sequence[RestoredFrame]:
    """Its groups, which were restored from a file."""
    operator = AggregateConfig("step", ("key",), None, tuple(aggregates.items()), INPUT).open()
    schema = {**INPUT.polars(), "__ts": pl.Int64()}
    operator.on_batch(pl.DataFrame({"key": ["a", "b"], "x": [1, 2], "__ts": [1, 2]}, schema=schema), Collected())
    (groups, _time) = operator.snapshot()
    origin = StoredRows(StoredFile("state/a.parquet", 1, "", ("key",), 2), (0,), 2)
    return [RestoredFrame(chunk.frame, origin) for chunk in groups.chunks]


def test_a_frame_whose_columns_are_all_needed_keeps_its_origin() -> None:
    aggregates = {"n": "count(*)", "total": "sum(x)"}
    restored = {GROUPS: frames(aggregates)}
    ((kept,),) = saved(aggregates).parts(restored)
    assert kept.origin == restored[GROUPS][0].origin
    assert kept.frame.sort("key").equals(restored[GROUPS][0].frame.select(kept.frame.columns).sort("key"))


def test_a_frame_with_a_column_that_is_not_needed_any_more_is_another_one() -> None:
    restored = {GROUPS: frames({"n": "count(*)", "total": "sum(x)"})}
    ((kept,),) = saved({"n": "count(*)"}).parts(restored)
    assert kept.origin is None
