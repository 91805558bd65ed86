"""run, preview and infer against a real broker."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until

from .conftest import PATIENTLY, Headrace

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

PIPELINE = """\
name: totals
sources:
  rides:
    kafka:
      brokers: {brokers}
      topic: {topic}
      group: {topic}-group
      stop: latest
    format: json
    schema:
      n: int64 not null
    on_error:
      dead_letter: {topic}-bad
sinks:
  out:
    from: rides
    kafka:
      brokers: {brokers}
      topic: {topic}-out
      create_topic: {}
    format: json
"""


def written(tmp_path: Path, brokers: str, topic: str) -> str:
    file = tmp_path / "totals.yaml"
    file.write_text(PIPELINE.replace("{brokers}", brokers).replace("{topic}", topic))
    return str(file)


def committed(broker: EmbeddedBroker, topic: str) -> int:
    """The offset that the pipeline's group has published; negative where there is none."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{topic}-group"})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS)
        return int(found.offset)
    finally:
        consumer.close()


def test_preview_leaves_no_trace_and_run_does(headrace: Headrace, broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = unique_topic()
    create_topic(broker, topic)
    create_topic(broker, f"{topic}-bad")
    produce(broker, topic, [b'{"n": 1}', b"nonsense", b'{"n": 2}'])
    file = written(tmp_path, broker.bootstrap, topic)

    looked = headrace("preview", file, "rides", *PATIENTLY, "--json")
    assert [row["n"] for row in json.loads(looked.stdout)["rows"]] == [1, 2]
    bad = headrace("preview", file, "rides.bad", *PATIENTLY, "--json")
    assert [row["offset"] for row in json.loads(bad.stdout)["rows"]] == [1]
    assert committed(broker, topic) < 0
    assert consume_all(broker, f"{topic}-bad") == []

    ran = headrace("run", file, "--json")
    assert ran.exit_code == 0, ran.output
    summary = json.loads(ran.stdout)
    assert (summary["rows_in"], summary["rows_out"], summary["bad"]) == (3, 2, 1)
    # nobody waits for the broker's answer for long: positions are published for people
    wait_until(lambda: committed(broker, topic) == 3, "the run's position is published")
    assert [record.value for record in consume_all(broker, f"{topic}-out")] == [b'{"n":1}', b'{"n":2}']
    assert [record.value for record in consume_all(broker, f"{topic}-bad")] == [b"nonsense"]


def test_infer_reads_a_topic(headrace: Headrace, broker: EmbeddedBroker) -> None:
    topic = unique_topic()
    create_topic(broker, topic)
    produce(broker, topic, [b'{"n": 1, "at": "2024-01-01T00:00:00Z"}', None, b'{"n": null}'])

    result = headrace("infer", topic, "--brokers", broker.bootstrap, "--json")

    assert json.loads(result.stdout)["schema"] == {"n": "int64", "at": "timestamp"}


def test_infer_reads_a_topic_of_csv(headrace: Headrace, broker: EmbeddedBroker) -> None:
    topic = unique_topic()
    create_topic(broker, topic)
    produce(broker, topic, [b"a;1", b"b;2"])

    csv = headrace("infer", topic, "--brokers", broker.bootstrap, "--format", "csv", "--json")
    json_of_csv = headrace("infer", topic, "--brokers", broker.bootstrap)

    document = json.loads(csv.stdout)
    assert document["schema"] == {"column_1": "string", "column_2": "int64"}
    assert document["format"] == '{csv: {delimiter: ";"}}'
    assert "--format csv" in json_of_csv.stderr


def test_consume_begins_at_a_time(headrace: Headrace, broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic(), 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for minute in range(3):
        at = datetime(2026, 11, 1, 12, minute, tzinfo=UTC)
        producer.produce(topic, f"{minute}", partition=0, timestamp=int(at.timestamp() * 1_000))
    producer.produce(topic, "early", partition=1, timestamp=1_000)
    assert producer.flush(WAIT_SECONDS) == 0

    def consumed(start: str) -> list[str]:
        return headrace("kafka", "consume", topic, "--from", start, "--brokers", broker.bootstrap).stdout.split()

    assert consumed("2026-11-01T12:01:00") == ["1", "2"]
    assert consumed("2026-11-01T13:02:00+01:00") == ["2"]
    assert consumed("2027-01-01") == []
    assert sorted(consumed("earliest")) == ["0", "1", "2", "early"]
    wrong = headrace("kafka", "consume", topic, "--from", "noon", "--brokers", broker.bootstrap)
    assert wrong.exit_code == 2
    assert "a time such as" in wrong.stderr


def test_a_missing_topic_of_dead_letters_has_one_remedy(
    headrace: Headrace, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = create_topic(broker, unique_topic())
    dead = f"{topic}-bad"
    file = written(tmp_path, broker.bootstrap, topic)

    run = headrace("run", file)
    listed = headrace("dead-letters", "list", file)

    assert run.exit_code == 2, run.output
    assert f"topic '{dead}' for the dead letters of rides does not exist" in run.stderr
    assert f"headrace kafka create {dead}" in run.stderr
    assert "create_topic" not in run.stderr
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", "no dead letters\n")


def test_a_topic_that_is_not_there_is_wrong_use(headrace: Headrace, broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = written(tmp_path, broker.bootstrap, unique_topic())

    result = headrace("run", file, "--json")

    assert result.exit_code == 2, result.output
    assert json.loads(result.stdout)["state"] == "FAILED"
    assert "Traceback" not in result.output
    assert headrace("infer", unique_topic(), "--brokers", broker.bootstrap).exit_code == 2


def test_a_broker_that_is_not_there_is_exit_code_3(headrace: Headrace, tmp_path: Path) -> None:
    # bound, so that nobody else can take it; not listening, so that nobody answers
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        file = written(tmp_path, nobody, "rides")

        result = headrace("run", file)

    assert result.exit_code == 3, result.output
    assert nobody in result.stderr
    assert "Traceback" not in result.output
