"""What the Kafka sink promises beyond the conformance suite: keys, tombstones, partitions, failures, outages."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.cimpl import NewPartitions

from headrace.connect.sink import SinkBatch, SinkContext, Writer
from headrace.connect.source import SourceContext, Split
from headrace.core.batch import OP, TS
from headrace.core.errors import DataError, ExternalError, UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import Received
from headrace_connectors.kafka import KafkaSinkConfig, KafkaSourceConfig
from headrace_connectors.kafka.sink.records import QUEUED_ROWS_MAX
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import Record, consume_all, create_topic, unique_topic
from support.kafka.log_ends import admin_client, log_ends
from support.processes.running import WAIT_SECONDS

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

SCHEMA = schema_of({"k": "string", "n": "int64"})


def config_of(broker: EmbeddedBroker, topic: str, **fields: Any) -> KafkaSinkConfig:
    return KafkaSinkConfig.model_validate({"brokers": broker.bootstrap, "topic": topic} | fields)


def open_writer(config: KafkaSinkConfig) -> Writer:
    return config.open_writer(SinkContext("j", "out", 0, 1, SCHEMA, format="json"))


def batch(keys: list[str | None], numbers: list[int | None], deleted: list[bool] | None = None) -> SinkBatch:
    rows = pl.DataFrame(
        {"k": keys, "n": numbers, TS: [1_700_000_000_000] * len(keys)}, schema_overrides={"k": pl.String}
    )
    if deleted is not None:
        rows = rows.with_columns(pl.Series(OP, deleted))
    return SinkBatch(rows, pa.array([f"v{number}" for number in numbers], pa.large_string()))


def written(broker: EmbeddedBroker, config: KafkaSinkConfig, *batches: SinkBatch) -> list[Record]:
    writer = open_writer(config)
    for each in batches:
        writer.write(each)
    writer.flush(1)
    writer.close()
    return consume_all(broker, config.topic)


def test_raw_key_and_tombstones(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("upsert"), 1)
    config = config_of(broker, topic, key="k", mode="upsert")
    records = written(broker, config, batch(["a", "é", ""], [1, 2, 3], [False, True, False]))
    assert [(r.key, r.value) for r in records] == [(b"a", b"v1"), ("é".encode(), None), (b"", b"v3")]


def test_null_key_is_no_key_and_an_error_in_upsert_mode(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("nullkey"), 1)
    records = written(broker, config_of(broker, topic, key="k"), batch(["a", None], [1, 2]))
    assert [r.key for r in records] == [b"a", None]
    writer = open_writer(config_of(broker, topic, key="k", mode="upsert"))
    with pytest.raises(DataError, match=r"a row has no key.*'n': 2"):
        writer.write(batch(["a", None], [1, 2]))
    writer.close()


def test_other_keys_are_compact_json(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("jsonkey"), 1)
    records = written(broker, config_of(broker, topic, key=["n", "k"]), batch(["a", None], [1, None]))
    assert [r.key for r in records] == [b'{"n":1,"k":"a"}', b'{"n":null,"k":null}']
    topic = create_topic(broker, unique_topic("jsonkey"), 1)
    records = written(broker, config_of(broker, topic, key=["n"]), batch(["a", "b"], [1, None]))
    assert [r.key for r in records] == [b'{"n":1}', None]


def test_partitions_are_those_of_java(broker: EmbeddedBroker, producer_kind: str) -> None:
    """toPositive(murmur2(key)) % partitions, with the values of Kafka's own UtilsTest."""
    topic = create_topic(broker, unique_topic("murmur"), 37)
    vectors = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    records = written(broker, config_of(broker, topic, key="k"), batch(list(vectors), [1, 2, 3, 4]))
    assert {r.key: r.partition for r in records} == {
        key.encode(): (value & 0x7FFFFFFF) % 37 for key, value in vectors.items()
    }


def test_keys_keep_their_order_and_follow_partitions_that_are_added(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("grown"), 1)
    keys: list[str | None] = [f"k{number % 7}" for number in range(2_000)]
    config = config_of(broker, topic, key="k")
    writer = open_writer(config)
    writer.write(batch(keys, list(range(2_000))))
    writer.flush(1)
    admin_client(broker.bootstrap).create_partitions([NewPartitions(topic, 3)])[topic].result()
    log_ends(broker.bootstrap, topic, range(3))
    # their number is asked for again after some minutes
    writer._sender._partitions_due = 0.0  # type: ignore[attr-defined]
    writer.write(batch(keys, list(range(2_000, 4_000))))
    writer.flush(2)
    writer.close()
    records = consume_all(broker, topic)
    assert len(records) == 4_000
    for key in {r.key for r in records}:
        of_key = [(int((r.value or b"v")[1:]), r.partition) for r in records if r.key == key]
        assert [partition for number, partition in of_key if number < 2_000] == [0] * (len(of_key) // 2)
        grown = [(number, partition) for number, partition in of_key if number >= 2_000]
        assert len({partition for _, partition in grown}) == 1
        assert grown == sorted(grown)
    assert {r.partition for r in records if int((r.value or b"v")[1:]) >= 2_000} == {0, 1, 2}


def test_rows_without_a_key_spread(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("spread"), 3)
    batches = [batch(["a"] * 5000, list(range(5000))) for _ in range(3)]
    counts = [0, 0, 0]
    for record in written(broker, config_of(broker, topic), *batches):
        counts[record.partition] += 1
    assert sum(counts) == 15_000
    assert min(counts) >= 3000


def test_headers_and_event_time(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("headers"), 1)
    config = config_of(broker, topic, headers={"key": "k", "number": "n"}, timestamp="event")
    records = written(broker, config, batch(["a", None], [7, None]))
    assert [r.headers for r in records] == [(("key", b"a"), ("number", b"7")), (("key", None), ("number", None))]
    assert {r.timestamp for r in records} == {1_700_000_000_000}


def test_text_forms_and_slices(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("forms"), 1)
    texts = ["", "a", "é" * 40, "tail"]
    rows = pl.DataFrame({"k": texts, "n": range(4), TS: range(4)})
    columns = [
        pa.array(texts, pa.large_string()),
        pa.array(texts, pa.string_view()),
        pa.array([text.encode() for text in texts], pa.large_binary()),
        pa.array(["x", "y", *texts, "z"], pa.large_string()).slice(2, 4),
    ]
    records = written(broker, config_of(broker, topic), *(SinkBatch(rows, column) for column in columns))
    assert [r.value for r in records] == [text.encode() for text in texts] * 4


def test_topic_is_created_only_when_asked(broker: EmbeddedBroker) -> None:
    topic = unique_topic("make")
    context = SinkContext("j", "out", 0, 1, SCHEMA, format="json")
    with pytest.raises(UserError, match="does not exist") as raised:
        config_of(broker, topic).prepare(context)
    assert "create_topic" in str(raised.value)
    with pytest.raises(UserError, match=f"'{topic}' for the dead letters of s does not exist") as raised:
        config_of(broker, topic).prepare(replace(context, node="s.bad"))
    assert f"headrace kafka create {topic}" in str(raised.value)
    assert "create_topic" not in str(raised.value)
    config = config_of(broker, topic, create_topic={"partitions": "3", "config": {"cleanup.policy": "compact"}})
    config.prepare(context)
    config.prepare(context)
    records = written(broker, config_of(broker, topic, key="k"), batch(["a"], [1]))
    assert len(records) == 1
    with pytest.raises(UserError, match="cannot be created"):
        config_of(broker, unique_topic("bad"), create_topic={"replication": "5"}).prepare(context)


def test_a_record_that_is_too_large(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("large"), 1, config={"max.message.bytes": "1000"})
    writer = open_writer(config_of(broker, topic, properties={"compression.type": "none"}))
    rows = pl.DataFrame({"k": ["a"], "n": [1], TS: [1]})
    with pytest.raises(DataError, match="was not delivered") as raised:
        for _ in range(2):
            writer.write(SinkBatch(rows, pa.array(["x" * 5000], pa.large_string())))
            writer.flush(1)
    writer.close()
    assert "max.message.bytes" in str(raised.value)


def test_a_record_without_key_for_a_compacted_topic(broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(broker, unique_topic("compacted"), 1, config={"cleanup.policy": "compact"})
    writer = open_writer(config_of(broker, topic, key="k"))
    with pytest.raises(DataError, match=r"cleanup\.policy=compact") as raised:
        writer.write(batch([None], [1]))
    writer.close()
    assert topic in str(raised.value)
    assert "set `key:` to columns without NULLs" in str(raised.value)


def test_settings_that_are_not_valid(broker: EmbeddedBroker, producer_kind: str) -> None:
    for properties in ({"no.such.setting": "1"}, {"linger.ms": "soon"}):
        with pytest.raises(UserError, match="settings are not valid"):
            open_writer(config_of(broker, "any", properties=properties))


@pytest.mark.full
def test_a_killed_broker_is_ridden_out(own_broker: EmbeddedBroker, producer_kind: str) -> None:
    """Reader and writer go on after the broker came back, and nothing is lost."""
    broker = own_broker
    source, sink = create_topic(broker, "source", 2), create_topic(broker, "sink", 2)
    writer = open_writer(config_of(broker, source, key="k"))
    writer.write(batch([f"{n}" for n in range(100)], list(range(100))))
    writer.flush(1)
    config = KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topic": source})
    context = SourceContext("p", "n", SCHEMA, "raw")
    reader = config.open_reader(context)
    splits: list[Split] = list(config.open_enumerator(context).discover())
    reader.assign(splits)
    received = Received()
    while sum(len(rows) for rows in received.rows.values()) < 100:
        received.take(reader.poll(20))
    broker.kill()
    flushed = threading.Event()
    writer.write(batch([f"{n}" for n in range(100, 200)], list(range(100, 200))))

    def flush() -> None:
        writer.flush(2)
        flushed.set()

    thread = threading.Thread(target=flush)
    thread.start()
    for _ in range(20):
        received.take(reader.poll(50))
    assert not flushed.is_set(), "nothing is durable while no broker is there"
    broker.start()
    thread.join(WAIT_SECONDS)
    assert flushed.is_set()
    while sum(len(rows) for rows in received.rows.values()) < 200:
        received.take(reader.poll(20))
    reader.close()
    writer.close()
    assert sorted(value for rows in received.rows.values() for value in rows) == sorted(
        f"v{n}".encode() for n in range(200)
    )
    assert written(broker, config_of(broker, sink, key="k"), batch(["a"], [1]))[0].value == b"v1"


def test_the_queue_is_bounded_without_a_broker(own_broker: EmbeddedBroker, producer_kind: str) -> None:
    topic = create_topic(own_broker, "bounded", 1)
    for timeout_ms in ("3000", "30000", "120000"):
        # as short as this machine is quick enough for
        properties = {"message.timeout.ms": timeout_ms}
        writer = open_writer(config_of(own_broker, topic, key="k", properties=properties))
        writer.write(batch(["a"], [1]))
        with suppress(ExternalError):
            writer.flush(1)
            break
        writer.close()
    own_broker.kill()
    big = batch(["a"] * 20_000, list(range(20_000)))
    rows = 0
    with pytest.raises(ExternalError, match="was not delivered"):
        for _ in range(100):
            writer.write(big)
            rows += 20_000
    writer.close()
    assert rows <= QUEUED_ROWS_MAX
