"""`headrace run` against a real broker that goes away, and against what a user gets wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import broker_config, consume_all, create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, Finished, finish, headrace, start, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]


def pipeline(brokers: str, source: str, sink: str, *, start_at: str = "earliest", stop: str = "latest") -> str:
    return f"""
name: faults
sources:
  numbers:
    kafka:
      brokers: {brokers}
      topic: {source}
      start: {start_at}
      stop: {stop}
    format: json
    schema:
      n: int64 not null
steps:
  kept:
    from: numbers
    filter: n % 2 = 0
sinks:
  out:
    from: kept
    kafka:
      brokers: {brokers}
      topic: {sink}
    format: json
"""


def run(folder: Path, text: str) -> Finished:
    (folder / "p.yaml").write_text(text)
    return headrace(["run", "p.yaml", "--json"], folder)


def numbers(begin: int, end: int) -> list[bytes]:
    return [b'{"n": %d}' % n for n in range(begin, end)]


def test_a_broker_that_is_killed_and_restarted_is_ridden_out(tmp_path: Path) -> None:
    half, whole = 20_000, 40_000
    broker = EmbeddedBroker(broker_config(tmp_path / "kafka"))
    broker.start()
    try:
        source, sink = create_topic(broker, "in", 1), create_topic(broker, "out", 2)
        produce(broker, source, numbers(0, half))
        (tmp_path / "p.yaml").write_text(pipeline(broker.bootstrap, source, sink, stop=f"{{0: {whole}}}"))
        job = start(["run", "p.yaml", "--json"], tmp_path)
        wait_until(lambda: len(consume_all(broker, sink)) >= half // 4, "no output came")
        broker.kill()
        broker.start()
        produce(broker, source, numbers(half, whole))
        done = finish(job)
        assert done.code == 0, done.err
        assert done.json["state"] == "FINISHED"
        assert done.json["rows_in"] == whole
        values = [record.value for record in consume_all(broker, sink)]
        assert set(values) == {b'{"n":%d}' % n for n in range(0, whole, 2)}
    finally:
        broker.stop()


def test_a_missing_topic_is_named_with_the_remedy(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source = create_topic(broker, unique_topic("there"))
    done = run(tmp_path, pipeline(broker.bootstrap, source + "x", source))
    assert done.code == 2
    assert f"{source}x" in done.err
    assert "create" in done.err
    assert "Traceback" not in done.err


def test_a_missing_sink_topic_is_said_before_anything_is_read(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source = create_topic(broker, unique_topic("there"))
    done = run(tmp_path, pipeline(broker.bootstrap, source, unique_topic("nowhere")))
    assert done.code == 2
    assert "nowhere" in done.err
    assert "create_topic" in done.err


def test_an_expired_offset_is_an_error_and_no_jump(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, sink = create_topic(broker, unique_topic("old")), create_topic(broker, unique_topic("sink"))
    produce(broker, source, numbers(0, 100))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.delete_records([TopicPartition(source, 0, 50)], request_timeout=WAIT_SECONDS).values()
    future.result(WAIT_SECONDS)
    done = run(tmp_path, pipeline(broker.bootstrap, source, sink, start_at="{0: 10}"))
    assert done.code in (1, 2)
    assert source in done.err
    assert "10" in done.err
    assert "50" in done.err
    assert consume_all(broker, sink) == []


def test_a_wrong_schema_fails_the_job_with_the_message_and_its_place(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, sink = create_topic(broker, unique_topic("wrong")), create_topic(broker, unique_topic("sink"))
    produce(broker, source, [*numbers(0, 3), b'{"n": "three"}'])
    done = run(tmp_path, pipeline(broker.bootstrap, source, sink))
    assert done.code == 1
    assert f"{source}[0] offset 3" in done.err
    assert '"three"' in done.err
    assert "on_error" in done.err
    assert done.json["state"] == "FAILED"


def test_ctrl_c_ends_cleanly_with_everything_written(broker: EmbeddedBroker, tmp_path: Path) -> None:
    source, sink = create_topic(broker, unique_topic("live")), create_topic(broker, unique_topic("sink"))
    produce(broker, source, numbers(0, 1000))
    text = pipeline(broker.bootstrap, source, sink).replace("      stop: latest\n", "")
    (tmp_path / "p.yaml").write_text(text)
    job = start(["run", "p.yaml", "--json"], tmp_path)
    wait_until(lambda: len(consume_all(broker, sink)) == 500, "no output came")
    job.send_signal(2)
    done = finish(job)
    assert done.code == 0, done.err
    assert done.json["state"] == "CANCELED"
    assert done.json["rows_out"] == 500
