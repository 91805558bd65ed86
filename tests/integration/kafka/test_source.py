"""What the Kafka source promises beyond the conformance suite: where it starts and stops, gaps, and what goes wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from confluent_kafka.admin import AdminClient

from headrace.connect.source import MessageBatch, Reader, SourceContext, Split, SplitId
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import Received, read_to_end
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.kafka.log_ends import wait_settled
from support.kafka.raw_transactions import transactional
from support.processes.running import WAIT_SECONDS

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

CONTEXT = SourceContext("p", "n", schema_of({"v": "string"}), "raw")
WAIT_S = WAIT_SECONDS


def config_of(broker: EmbeddedBroker, topic: str | None, **fields: Any) -> KafkaSourceConfig:
    given = {"brokers": broker.bootstrap} | ({} if topic is None else {"topic": topic}) | fields
    return KafkaSourceConfig.model_validate(given)


def splits_of(config: KafkaSourceConfig, context: SourceContext = CONTEXT) -> list[Split]:
    return list(config.open_enumerator(context).discover())


def read(config: KafkaSourceConfig, context: SourceContext = CONTEXT) -> Received:
    splits = splits_of(config, context)
    reader = config.open_reader(context)
    reader.assign(splits)
    try:
        return read_to_end(reader, splits)
    finally:
        reader.close()


def values(received: Received) -> list[bytes]:
    return sorted(value for rows in received.rows.values() for value in rows)


def poll_until(reader: Reader, condition: Callable[[Received], bool], received: Received | None = None) -> Received:
    received = received or Received()
    deadline = time.monotonic() + WAIT_S
    while not condition(received):
        assert time.monotonic() < deadline, f"waited for {WAIT_S} s; have {received}"
        received.take(reader.poll(20))
    return received


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = create_topic(broker, unique_topic("source"), 2)
    produce(
        broker,
        name,
        [f"{n}" for n in range(20)],
        partition=[n % 2 for n in range(20)],
        timestamps=[1_700_000_000_000 + n * 1000 for n in range(20)],
    )
    return name


@pytest.mark.usefixtures("consumer_kind")
@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        ("earliest", "latest", range(20)),
        ("latest", "latest", ()),
        ({"0": "8", "1": "9"}, "latest", (16, 18, 19)),
        ({"0": "8", "1": "9"}, {"0": "9", "1": "10"}, (16, 19)),
        ("2023-11-14T22:13:35Z", "latest", range(15, 20)),
        ("2023-11-14T22:13:25Z", "2023-11-14T22:13:28Z", range(5, 8)),
        ("earliest", "2033-01-01", range(20)),
        ("committed", "latest", range(20)),
    ],
)
def test_start_and_stop(broker: EmbeddedBroker, topic: str, start: Any, stop: Any, expected: Any) -> None:
    received = read(config_of(broker, topic, start=start, stop=stop))
    assert sorted(int(value) for value in values(received)) == list(expected)


@pytest.mark.usefixtures("consumer_kind")
def test_committed_goes_on_where_a_group_was(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a reader that closes waits for the answer for a while only
    monkeypatch.setattr("headrace_connectors.kafka.source.reader.COMMIT_SETTLE_S", WAIT_S)
    config = config_of(broker, topic, start="committed", stop="latest", group=unique_topic("group"))
    assert [split.start for split in splits_of(config)] == [0, 0]
    reader = config.open_reader(CONTEXT)
    reader.assign(splits_of(config))
    reader.commit({SplitId(topic, 0): 3})
    reader.commit({SplitId(topic, 0): 7, SplitId(topic, 1): 10})
    reader.close()
    assert [split.start for split in splits_of(config)] == [7, 10]


def test_default_group_is_named_after_pipeline_and_node(broker: EmbeddedBroker, topic: str) -> None:
    assert config_of(broker, topic).group_id(CONTEXT) == "headrace-p-n"


def test_pattern_finds_topics_and_later_ones(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    # who looks again gives up soon: a job asks once more
    monkeypatch.setattr("headrace_connectors.kafka.source.enumerator.LATER_TIMEOUT_S", WAIT_S)
    stem = unique_topic("pat")
    create_topic(broker, f"{stem}-a", 1)
    create_topic(broker, f"not-{stem}", 1)
    config = config_of(
        broker, None, pattern=f"{stem}-.*", start="latest", properties={"topic.metadata.refresh.interval.ms": 100}
    )
    enumerator = config.open_enumerator(CONTEXT)
    assert enumerator.discovery_interval_ms == 100
    assert [split.id for split in enumerator.discover()] == [SplitId(f"{stem}-a", 0)]
    produce(broker, create_topic(broker, f"{stem}-b", 2), ["early"], partition=0)
    later = enumerator.discover()
    assert [split.id for split in later] == [SplitId(f"{stem}-a", 0), SplitId(f"{stem}-b", 0), SplitId(f"{stem}-b", 1)]
    assert all(split.start == 0 for split in later[1:]), "what is newly found is read from its beginning"


@pytest.mark.usefixtures("consumer_kind")
def test_metadata_comes_when_asked_for(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("meta"), 1)
    produce(
        broker,
        topic,
        ["a", None, ""],
        keys=["k", None, ""],
        timestamps=[5000, 6000, 7000],
        headers=[[("h", b"1"), ("h", None)], [], [("x", b"y")]],
    )
    context = SourceContext("p", "n", CONTEXT.schema, "raw", wants_keys=True, wants_headers=True, wants_timestamps=True)
    config = config_of(broker, topic, stop="latest")
    reader = config.open_reader(context)
    reader.assign(splits_of(config))
    batches: list[MessageBatch] = []
    while sum(len(batch) for batch in batches) < 3:
        polled = reader.poll(20)
        if polled.batch is not None:
            assert isinstance(polled.batch, MessageBatch)
            batches.append(polled.batch)
    reader.close()
    assert [v for b in batches for v in b.values.to_pylist()] == [b"a", None, b""]
    assert [v for b in batches if b.keys is not None for v in b.keys.to_pylist()] == [b"k", None, b""]
    assert [t for b in batches if b.timestamps is not None for t in b.timestamps.tolist()] == [5000, 6000, 7000]
    assert [h for b in batches if b.headers is not None for h in b.headers.to_list()] == [
        [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        [],
        [{"key": "x", "value": b"y"}],
    ]


@pytest.mark.usefixtures("consumer_kind")
def test_gaps_of_transactions(broker: EmbeddedBroker) -> None:
    """Single records with a control record after each, of two partitions in turn: gaps as long as what lies between;
    aborted records are never seen, and the end is past what is never delivered."""
    topic = create_topic(broker, unique_topic("gaps"), 2)
    producer = transactional(broker)
    expected: dict[int, list[bytes]] = {0: [], 1: []}
    for number in range(30):
        producer.begin_transaction()
        partition = number % 2
        producer.produce(topic, f"{number}", partition=partition)
        if number % 5 == 4:
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
            expected[partition].append(f"{number}".encode())
    wait_settled(broker.bootstrap, topic)
    received = read(config_of(broker, topic, stop="latest"))
    assert {split.partition: rows for split, rows in received.rows.items()} == expected
    for at in received.at.values():
        assert np.diff(at).min() >= 2
    assert {at[-1] for at in received.next_positions.values()} == {30}


@pytest.mark.usefixtures("consumer_kind")
def test_stop_latest_is_the_last_stable_offset(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("open"), 1)
    produce(broker, topic, ["a", "b"])
    producer = transactional(broker)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(WAIT_S)
    produce(broker, topic, ["behind"])
    received = read(config_of(broker, topic, stop="latest"))
    assert values(received) == [b"a", b"b"]
    producer.abort_transaction(WAIT_S)
    wait_settled(broker.bootstrap, topic)
    assert values(read(config_of(broker, topic, stop="latest"))) == [b"a", b"b", b"behind"]


@pytest.mark.usefixtures("consumer_kind")
def test_at_end_and_lag_while_rows_come(broker: EmbeddedBroker, topic: str) -> None:
    config = config_of(broker, topic, start="earliest")
    reader = config.open_reader(CONTEXT)
    splits = splits_of(config)
    reader.assign(splits)
    ids = {split.id for split in splits}
    at_end: set[SplitId] = set()
    lag: dict[SplitId, int] = {}
    deadline = time.monotonic() + WAIT_S
    while at_end != ids or lag != dict.fromkeys(ids, 0):
        assert time.monotonic() < deadline
        polled = reader.poll(20)
        at_end, lag = set(polled.at_end), dict(polled.lag)
    produce(broker, topic, ["more"], partition=0)
    deadline = time.monotonic() + WAIT_S
    polled = reader.poll(20)
    while polled.batch is None:
        assert time.monotonic() < deadline
        polled = reader.poll(20)
    reader.close()
    assert polled.positions[SplitId(topic, 0)] == 11


def test_missing_topic_is_said_with_the_nearest_name(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("flights"), 1)
    with pytest.raises(UserError) as raised:
        splits_of(config_of(broker, topic + "x"))
    assert f"topic '{topic}x' does not exist" in str(raised.value)
    assert f"did you mean '{topic}'?" in str(raised.value)
    assert "headrace kafka create" in str(raised.value)


def test_pattern_without_a_topic(broker: EmbeddedBroker) -> None:
    with pytest.raises(UserError, match=r"no topic at .* matches pattern"):
        splits_of(config_of(broker, None, pattern="nothing-like-this-.*"))


def test_no_broker_there() -> None:
    config = KafkaSourceConfig.model_validate({"brokers": "127.0.0.1:9", "topic": "t"})
    with pytest.raises(ExternalError) as raised:
        splits_of(config)
    assert "127.0.0.1:9" in str(raised.value)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"0": "11", "1": "0"}, r"partition 0: offset 11 is past the end: the partition holds 0 to 10"),
        ({"0": "1"}, r"start does not name partition 1"),
        ({"0": "1", "1": "1", "7": "1"}, r"start names partition 7, but .* has 0, 1"),
    ],
)
def test_offsets_that_are_not_there(broker: EmbeddedBroker, topic: str, start: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        splits_of(config_of(broker, topic, start=start))


def delete_before(broker: EmbeddedBroker, topic: str, partition: int, offset: int) -> None:
    from confluent_kafka import TopicPartition

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    places = [TopicPartition(topic, partition, offset)]
    for future in admin.delete_records(places, request_timeout=WAIT_S).values():
        future.result()


def test_expired_start(broker: EmbeddedBroker, topic: str) -> None:
    delete_before(broker, topic, 0, 6)
    with pytest.raises(UserError, match="partition 0: offset 2 has expired: the partition holds 6 to 10"):
        splits_of(config_of(broker, topic, start={"0": "2", "1": "0"}))


@pytest.mark.usefixtures("consumer_kind")
def test_position_that_expires_is_an_error_and_never_a_jump(broker: EmbeddedBroker, topic: str) -> None:
    config = config_of(broker, topic)
    delete_before(broker, topic, 0, 6)
    again = True
    while again:
        reader = config.open_reader(CONTEXT)
        reader.assign([Split(SplitId(topic, 0), 2)])
        with pytest.raises(HeadraceError) as raised:
            poll_until(reader, lambda received: bool(received.rows))
        reader.close()
        # what the partition holds is not asked for long: a job would begin anew
        again = raised.value.retry
    assert isinstance(raised.value, UserError)
    assert "partition 0: offset 2 has expired: the partition holds 6 to 10" in str(raised.value)


@pytest.mark.usefixtures("consumer_kind")
def test_deleted_topic_is_an_error(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_connectors.kafka.source.topic_watch.QUIET_S", 0.2)
    monkeypatch.setattr("headrace_connectors.kafka.source.topic_watch.GONE_AFTER_S", 1.0)
    topic = create_topic(broker, unique_topic("gone"), 1)
    produce(broker, topic, ["a"])
    config = config_of(broker, topic)
    reader = config.open_reader(CONTEXT)
    reader.assign(splits_of(config))
    received = poll_until(reader, lambda received: bool(received.rows))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic], request_timeout=WAIT_S)[topic].result()
    with pytest.raises(UserError, match="does not exist any more"):
        poll_until(reader, lambda received: len(received.rows[SplitId(topic, 0)]) > 1, received)
    reader.close()


@pytest.mark.usefixtures("consumer_kind")
def test_values_keep_tombstones_and_bytes(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, unique_topic("bytes"), 1)
    produce(broker, topic, [b"\xff\x00", None, b"", "é\n"])
    config = config_of(broker, topic, stop="latest")
    assert list(read(config).rows.values()) == [[b"\xff\x00", None, b"", "é\n".encode()]]


@pytest.mark.usefixtures("consumer_kind")
def test_rows_come_as_one_arrow_column(broker: EmbeddedBroker, topic: str) -> None:
    config = config_of(broker, topic, stop="latest")
    reader = config.open_reader(CONTEXT)
    reader.assign(splits_of(config))
    polled = reader.poll(20)
    while polled.batch is None:
        polled = reader.poll(20)
    reader.close()
    assert isinstance(polled.batch, MessageBatch)
    series = pl.from_arrow(polled.batch.values)
    assert isinstance(series, pl.Series)
    assert series.dtype == pl.Binary
