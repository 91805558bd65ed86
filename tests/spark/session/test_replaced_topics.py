"""`headrace replay` from a savepoint of a topic that was deleted and made anew: refused, until it is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, delete_topic, produce, unique_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.full]

PIPELINE = """\
name: numbers
sources:
  numbers:
    kafka: {{brokers: "{brokers}", topic: {topic}, stop: latest}}
    format: json
    schema: {{n: int64 not null}}
sinks:
  out: {{from: numbers, files: {{path: {folder}/out}}, format: json}}
"""


def test_a_replay_and_one_that_follows_are_refused_and_begin_the_topic_at_its_start_once_it_is_accepted(
    broker: EmbeddedBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def session(*_: object) -> Iterator[SparkSession]:
        yield spark

    def made(values: range) -> None:
        create_topic(broker, topic)
        produce(broker, topic, [json.dumps({"n": value}) for value in values])

    def replay(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["replay", str(file), "--json", *options])
        return done.exit_code, done.output

    monkeypatch.setattr("headrace.spark.cluster.session.session", session)
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    topic, file = unique_topic("numbers"), tmp_path / "p.yaml"
    file.write_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic, folder=tmp_path))
    made(range(5))
    code, output = replay("--savepoint", str(tmp_path / "kept"))
    assert code == 0, output
    (kept,) = (tmp_path / "kept").glob("savepoint-*")
    origin = ("--from-savepoint", str(kept))
    delete_topic(broker, topic)
    made(range(100, 108))
    code, output = replay("--until", str(kept))
    assert (code, "cannot end at the savepoint's positions" in output) == (2, True), output
    for more in ((), ("--follow", "--increments", "1")):
        code, output = replay(*origin, *more)
        assert code == 2, output
        assert "it was deleted and made anew" in output
        assert f"--accept-new-topic {topic}" in output
        code, output = replay(*origin, *more, "--accept-new-topic", topic)
        assert code == 0, output
        assert '"rows_in": 8' in output or '"rows_in":8' in output, output
