"""What a sink publishes, as a reader of the topic sees it."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

import headrace
from headrace.core.errors import UserError
from headrace.local.inspection.published import as_read_back, source_of
from headrace.plan.logical import plan_logical
from headrace.plan.physical import SinkSpec

SCHEMA = {"n": "int64 not null", "x": "float64 not null", "s": "{a: float64 not null, b: [decimal(5,2)]}"}


def sink(**connector: object) -> SinkSpec:
    pipeline = headrace.Pipeline("published")
    rows = pipeline.source(
        "rows", kafka={"brokers": "localhost:1", "topic": "in", "stop": "latest"}, format="json", schema=SCHEMA
    )
    rows.sink("out", format="json", **connector)  # type: ignore[arg-type]
    nodes = plan_logical(pipeline.build()).nodes
    return next(node.spec for node in nodes if isinstance(node.spec, SinkSpec))


def test_what_json_does_not_tell_apart_is_equal() -> None:
    spec = sink(kafka={"brokers": "localhost:1", "topic": "out"})
    rows = pl.DataFrame(
        [{"n": 1, "x": math.nan, "s": {"a": math.inf, "b": ["1.50"]}}, {"n": 2, "x": -0.0, "s": None}],
        schema_overrides={"s": pl.Struct({"a": pl.Float64, "b": pl.List(pl.String)})},
    ).cast(dict(spec.schema.polars()))  # type: ignore[arg-type]
    read = as_read_back(spec, rows)
    assert read.schema == rows.schema
    assert [row["x"] for row in read.to_dicts()] == [None, -0.0]
    assert read["s"].struct.field("a").to_list() == [None, None]
    assert read["s"].struct.field("b").to_list() == [rows["s"].struct.field("b")[0].to_list(), None]


def test_a_topic_is_read_with_the_settings_of_the_sink() -> None:
    properties = {"security.protocol": "SSL"}
    spec = sink(kafka={"brokers": "a:1,b:2", "topic": "out", "key": ["n"], "properties": properties})
    source = source_of(spec, "other", start="earliest", stop={"0": 7}).model_dump()
    assert (source["brokers"], source["topic"], source["properties"]) == ("a:1,b:2", "other", properties)
    assert (source["start"], source["stop"]) == ("earliest", {0: 7})


def test_what_is_no_topic_is_refused(tmp_path: Path) -> None:
    spec = sink(kafka={"brokers": "localhost:1", "topic": "out"})
    with pytest.raises(UserError, match="no topic name"):
        source_of(spec, "no topic", start="earliest", stop="latest")
    with pytest.raises(UserError, match="cannot be read back"):
        source_of(sink(files={"path": str(tmp_path)}), "other", start="earliest", stop="latest")
