"""The DataFrame back end: the same rows as by RDDs, where a session has none of them. The commit tier has it in
`test_connect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headrace.core.settings import Home
from headrace.spark.driver.exchange import DataFrameExchange
from headrace.spark.launch.replay import ReplayOptions, prepare
from support.flows.site import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOWS = ("sliding", "two_stages", "late_rows")


@pytest.mark.full
@pytest.mark.parametrize("name", FLOWS)
def test_rows_are_those_of_the_golden(name: str, spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(name)
    pipeline = flow.load({"OUT": str(tmp_path / "out"), "DATA": str(tmp_path)})
    before = dict(spark.conf.getAll)
    prepared = prepare(pipeline, ReplayOptions(parallelism=2), Home(tmp_path / "home"))
    outcome = prepared.replay(DataFrameExchange(spark), lambda _: None).run()
    assert outcome.rows_in == 3_000
    written = {
        sink: [row for file in (tmp_path / "out" / sink).glob("part-*") for row in pl.read_ndjson(file).to_dicts()]
        for sink in flow.document["sinks"]
    }
    assert flow.canonical(written) == flow.golden.read_text().splitlines()
    assert not any(flow.repeated(written).values())
    assert dict(spark.conf.getAll) == before, "the session is as it was"
