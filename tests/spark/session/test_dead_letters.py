"""Dead letters of a replay on Spark are those of a native run: the record with its key, headers and timestamp."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
import headrace.spark
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import Record, consume_all, create_topic, produce, unique_topic
from support.processes.running import headrace as command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.full]

PIPELINE = """\
name: letters
sources:
  rows:
    kafka: {{brokers: "{brokers}", topic: {source}, stop: latest}}
    format: json
    schema: {{n: int64 not null}}
    on_error: {{dead_letter: {dead}}}
sinks:
  out: {{from: rows, files: {{path: {folder}/out}}, format: json}}
"""


def test_letters_are_those_of_a_native_run(broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path) -> None:
    source = create_topic(broker, unique_topic("in"), 2)
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"abc\xff"), ("topic", None)]
    produce(
        broker,
        source,
        ['{"n": 1}', "no json"],
        keys=["k", "l"],
        partition=1,
        timestamps=[1_577_836_800_000, 1_577_836_801_000],
        headers=[[], headers],
    )
    written: list[Record] = []
    for engine in ("native", "spark"):
        dead = create_topic(broker, unique_topic("dead"), 1)
        folder = tmp_path / engine
        folder.mkdir()
        file = folder / "p.yaml"
        file.write_text(PIPELINE.format(brokers=broker.bootstrap, source=source, dead=dead, folder=folder))
        if engine == "native":
            done = command(["run", "p.yaml"], folder)
            assert done.code == 0, done.err
        else:
            headrace.spark.replay(spark, headrace.load(file), publish=True, storage=str(folder / "storage"))
        written += consume_all(broker, dead)
    native, on_spark = written
    assert (on_spark.key, on_spark.value, on_spark.headers) == (native.key, native.value, native.headers)
    assert native.headers[:2] == tuple(headers)
    assert dict(native.headers[2:])["timestamp"] == b"2020-01-01T00:00:01.000Z"
