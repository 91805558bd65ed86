"""A savepoint out of DataFrames that says at which offsets a job goes on: no record twice, none left out."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.core.errors import UserError
from headrace.spark import bootstrap
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import finish, start, wait_until
from support.storage.archive import delete_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.turns(3, of="files")]

PIPELINE = """
name: bootstrapped
parallelism: 2
checkpoint: {{interval: 500ms}}
sources:
  orders:
    kafka: {{brokers: "{brokers}", topic: "{topic}", metadata: {{partition: p, offset: o}}}}
    format: json
    schema: {{id: int64 not null, at: timestamp not null}}
    time: {{column: at, out_of_orderness: 5s}}
steps:
  keyed: {{from: orders, with_columns: {{k: id % 3}}}}
  totals:
    from: keyed
    key_by: [k]
    aggregate: {{n: count(*), kinds: count(distinct id % 4), opening: first(id), closing: last(id)}}
  windows:
    from: keyed
    key_by: [k]
    window: {{tumbling: 10s}}
    aggregate: {{n: count(*), total: sum(id)}}
sinks:
  seen: {{from: keyed, kafka: {{brokers: "{brokers}", topic: "{topic}-seen", delivery: exactly-once}}, format: json}}
  sums:
    from: totals
    kafka: {{brokers: "{brokers}", topic: "{topic}-sums", key: [k], mode: upsert}}
    format: json
  fired:
    from: windows
    kafka: {{brokers: "{brokers}", topic: "{topic}-fired", delivery: exactly-once}}
    format: json
"""
POSITIONS = {0: 20, 1: 15, 2: 0}
"""What is in the state: record n has id n and comes n seconds after 1970, in partition n % 2; nothing in the third."""
THERE, LATER = 50, 90
"""Records in the topic when the job goes on, and at its end."""
REACHED_S = 20


def place(number: int) -> tuple[int, int]:
    return number % 2, number // 2


BEFORE = [number for number in range(THERE) if place(number)[1] < POSITIONS[number % 2]]


def send(broker: EmbeddedBroker, topic: str, numbers: range) -> None:
    values = [json.dumps({"id": number, "at": number * 1000}) for number in numbers]
    produce(broker, topic, values, partition=[number % 2 for number in numbers])


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """What is in the state has expired from the first partition."""
    name = create_topic(broker, unique_topic("orders"), 3)
    for suffix in ("seen", "sums", "fired"):
        create_topic(broker, f"{name}-{suffix}", 2)
    send(broker, name, range(THERE))
    delete_records(broker, name, {0: POSITIONS[0]})
    return name


@pytest.fixture
def file(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic))
    return path


def states(spark: SparkSession, topic: str) -> dict[str, DataFrame]:
    from pyspark.sql import functions as sql

    rows = spark.createDataFrame([(number, *place(number)) for number in BEFORE], "id long, p long, o long")
    rows = rows.withColumn("k", sql.col("id") % 3).withColumn("from", sql.floor(sql.col("id") / 10) * 10)

    def picked(name: str, pick: Any) -> list[Any]:
        parts = {name: "id", f"{name}.ts": "timestamp_seconds(id)", f"{name}.source": "'orders'"}
        parts |= {f"{name}.topic": f"'{topic}'", f"{name}.partition": "p", f"{name}.offset": "o"}
        return [pick(sql.expr(made), "id").alias(part) for part, made in parts.items()]

    kinds = sql.collect_set(sql.col("id") % 4).alias("kinds.values")
    bounds = {"window_start": sql.timestamp_seconds("from"), "window_end": sql.timestamp_seconds(sql.col("from") + 10)}
    return {
        "totals": rows.groupBy("k").agg(
            sql.count("*").alias("n"), kinds, *picked("opening", sql.min_by), *picked("closing", sql.max_by)
        ),
        "windows": rows.where(sql.col("id") >= REACHED_S)
        .withColumns(bounds)
        .groupBy("k", *bounds)
        .agg(sql.count("*").alias("n"), sql.sum("id").alias("total")),
    }


def rows_of(broker: EmbeddedBroker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in consume_all(broker, topic) if record.value is not None]


def last_of(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """By key, in the order of what was counted."""
    return {row["k"]: row for row in sorted(rows, key=lambda row: int(row["n"]))}


def test_a_job_goes_on_from_the_offsets(
    broker: EmbeddedBroker, topic: str, file: Path, spark: SparkSession, tmp_path: Path
) -> None:
    reached = datetime.fromtimestamp(REACHED_S, UTC)
    given = states(spark, topic)
    path = bootstrap(
        spark, file, str(tmp_path / "kept"), given, positions={"orders": {topic: POSITIONS}}, reached=reached
    )
    running = start(["run", file.name, "--from-savepoint", path], tmp_path)
    try:
        new = [number for number in range(THERE) if number not in BEFORE]
        wait_until(lambda: len(rows_of(broker, f"{topic}-seen")) >= len(new), "what was there is read")
        send(broker, topic, range(THERE, LATER))
        produce(broker, topic, [json.dumps({"id": LATER, "at": LATER * 1000})], partition=2)
        new += [*range(THERE, LATER), LATER]
        wait_until(lambda: len(rows_of(broker, f"{topic}-seen")) >= len(new), "what came since is read")
        wait_until(lambda: len(rows_of(broker, f"{topic}-fired")) >= len(windows()), "windows close")
        running.send_signal(signal.SIGINT)
    finally:
        ended = finish(running)
    assert ended.code == 0, ended.err

    seen = Counter((row["id"], row["p"], row["o"]) for row in rows_of(broker, f"{topic}-seen"))
    places: Mapping[int, tuple[int, int]] = {number: place(number) for number in new} | {LATER: (2, 0)}
    assert seen == Counter((number, *places[number]) for number in new)
    every = range(LATER + 1)
    assert last_of(rows_of(broker, f"{topic}-sums")) == {
        k: {"k": k, "n": len(own), "kinds": len({number % 4 for number in own}), "opening": own[0], "closing": own[-1]}
        for k in range(3)
        if (own := [number for number in every if number % 3 == k])
    }
    assert sorted(json.dumps(row) for row in rows_of(broker, f"{topic}-fired")) == sorted(map(json.dumps, windows()))


def windows() -> list[dict[str, Any]]:
    """Those that end after what was reached and by the time that all three partitions have come to."""
    ends = range(REACHED_S + 10, LATER - 2 - 5 + 1, 10)
    return [
        {
            "k": k,
            "window_start": f"1970-01-01T00:{(end - 10) // 60:02}:{(end - 10) % 60:02}.000Z",
            "window_end": f"1970-01-01T00:{end // 60:02}:{end % 60:02}.000Z",
            "n": len(own),
            "total": sum(own),
        }
        for end in ends
        for k in range(3)
        if (own := [number for number in range(end - 10, end) if number % 3 == k])
    ]


WRONG: Mapping[str, tuple[dict[int, int], str]] = {
    "expired": (
        {**POSITIONS, 0: 5},
        r"positions of source 'orders': .* partition 0: offset 5 has expired: .* 20 to 25",
    ),
    "past the end": ({**POSITIONS, 1: 26}, r"positions of source 'orders': .* partition 1: offset 26 is past the end"),
    "missing": ({0: 20, 1: 15}, r"positions of source 'orders': .*does not name partition 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_positions_that_cannot_be_read_are_refused(
    topic: str, file: Path, spark: SparkSession, tmp_path: Path, case: str
) -> None:
    positions, message = WRONG[case]
    with pytest.raises(UserError, match=message):
        bootstrap(spark, file, str(tmp_path / "kept"), {}, positions={"orders": {topic: positions}})
    assert not (tmp_path / "kept").exists()
