"""Typical use of the Python API. Never run: mypy in strict mode shows that its types hold for the user."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import assert_type

import polars as pl

from headrace import api as hr
from headrace.client.models import JobStatus
from headrace.local.engine.job import JobState, Progress
from headrace.spec.pipeline import Pipeline as PipelineModel


def doubled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("amount") * 2)


def expressions() -> None:
    a, b = hr.col("a"), hr.col("b")
    assert_type(a == 1, hr.Expr)
    assert_type(a != "x", hr.Expr)
    assert_type(a.is_not_null() & (b > 3) | ~(a <= b), hr.Expr)
    assert_type(2 * a + 1.5 - b // 2 % 3, hr.Expr)
    assert_type(1 / a**2, hr.Expr)
    assert_type(-a.cast("int64"), hr.Expr)
    assert_type(a >= date(2013, 1, 1), hr.Expr)
    assert_type(a.between(datetime(2013, 1, 1), hr.fn("now") - timedelta(days=1)), hr.Expr)
    assert_type(hr.case((a > b, "more"), ("a < b", "less"), otherwise="equal"), hr.Expr)
    assert_type(hr.count().where(a > 1), hr.Aggregate)
    assert_type(hr.sum_(a).distinct(), hr.Aggregate)
    assert_type(hr.sum_("a * b") / hr.count(), hr.Expr)


def building() -> hr.Pipeline:
    pipeline = hr.Pipeline("orders", parallelism=2, checkpoint={"interval": "10s"}, state={"backend": "memory"})
    orders = pipeline.source(
        "orders",
        kafka={"brokers": "localhost:9092", "topic": "orders", "stop": "latest"},
        format={"json": {}},
        schema={"id": "string not null", "amount": "float64", "at": "timestamp", "tags": ["string"]},
        time={"column": "at", "out_of_orderness": timedelta(minutes=30)},
        on_error={"dead_letter": "orders-bad"},
    )
    assert_type(orders, hr.Stream)
    large = orders.filter("large", hr.col("amount") > 100, on_error="skip")
    small = orders.filter("small", "amount <= 100", parallelism=1)
    both = hr.union("both", large, small, partition={"hash": ["id"]}).drop("untagged", ["tags"])
    hourly = both.map("doubled", function=doubled, schema={"id": "string", "amount": "float64"}).aggregate(
        "hourly",
        key_by=["id"],
        window={"tumbling": timedelta(hours=1)},
        aggregate={"orders": "count(*)", "total": hr.sum_(hr.col("amount"))},
        allowed_lateness="5m",
    )
    hourly.select("named", ["id", "total"]).rename("renamed", {"total": "sum"}).sink("out", print={})
    hourly.select("shaped", {"id": "id", "total": hr.col("total").cast("int64"), "one": 1}).sink(
        "files", files={"path": Path("out")}, format="csv", partition="rebalance"
    )
    hourly.late.explode("each", "tags").with_columns("more", {"seen": hr.lit(value=True)}).sink(
        "late", memory={"name": "x"}
    )
    pipeline.test("one", inputs={"orders": [{"id": "a", "amount": 1.5}]}, outputs={"out": [{"id": "a"}]})
    return pipeline


def running(pipeline: hr.Pipeline) -> None:
    assert_type(pipeline.build(), PipelineModel)
    assert_type(pipeline.to_yaml(), str)
    assert_type(pipeline.explain(), str)
    assert_type(hr.load("pipeline.yaml", set_=["parallelism=2"]), PipelineModel)

    def enough(progress: Progress) -> bool:
        return progress.rows_in > 1_000

    result = hr.run(hr.load(Path("pipeline.yaml")), stop_when=enough)
    assert_type(result, hr.RunResult)
    assert_type(result.state, JobState)
    assert_type(pipeline.run(on_progress=print).rows_out, int)


def on_a_cluster(pipeline: hr.Pipeline) -> None:
    assert_type(hr.submit(pipeline, parallelism=2, renames={"old": "new"}, py_files=[Path("lib.zip")]), str)
    job = hr.submit(
        Path("pipeline.yaml"), from_savepoint="savepoints/one", claim=True, coordinator="http://localhost:1"
    )
    assert_type(hr.jobs()[0].name, str)
    assert_type(hr.status(job), JobStatus)
    assert_type(hr.wait(job, timeout_s=5).state, str)
    assert_type(hr.savepoint(job, Path("savepoints")), str)
    assert_type(hr.stop(job, savepoint="savepoints", drain=True), str)
    assert_type(hr.cancel(job), JobStatus)
    assert_type(hr.rescale(job, 3).parallelism, int)


def misuse(pipeline: hr.Pipeline, rows: hr.Stream) -> None:
    rows.filter("bad", 3)  # type: ignore[arg-type]
    rows.filter("bad", "a > 1", paralelism=2)  # type: ignore[call-arg]
    rows.with_columns("bad", ["a"])  # type: ignore[arg-type]
    pipeline.source("bad", kafka={"topic": "t"})  # type: ignore[call-arg]
    hr.col("a") + object()  # type: ignore[operator]
    hr.rescale("job", "3")  # type: ignore[arg-type]
