from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.connect.source import SourceContext, SplitId
from headrace.core.types import schema_of
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.kafka import KafkaSinkConfig, KafkaSourceConfig
from headrace_connectors.kafka.config import message_timeout_ms, transaction_settings
from headrace_connectors.kafka.source.start_stop import AtOffsets, AtTime, AtWord, parse_place

SOURCE = {"brokers": "localhost:9092", "topic": "t"}
SINK = {"brokers": "localhost:9092", "topic": "t"}


def source(**fields: Any) -> KafkaSourceConfig:
    return KafkaSourceConfig.model_validate(SOURCE | fields)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("earliest", AtWord("earliest")),
        ("committed", AtWord("committed")),
        ("2024-05-01T00:00:00Z", AtTime(1714521600000)),
        ("2024-05-01T02:00:00.5+02:00", AtTime(1714521600500)),
        ("2024-05-01", AtTime(1714521600000)),
        ({"0": "5", "1": 7}, AtOffsets({None: {0: 5, 1: 7}})),
        ({"t": {"0": "5"}}, AtOffsets({"t": {0: 5}})),
    ],
)
def test_positions_as_text(given: Any, place: object) -> None:
    assert parse_place(source(start=given).start) == place


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"start": "soon"}, "'soon' is no position: write earliest, latest, committed, archived, a time such as"),
        ({"start": "12"}, "'12' is no position"),
        ({"stop": "earliest"}, "'earliest' is no position: write latest, a time"),
        ({"start": {"0": "x"}}, "'x' is not an offset"),
        ({"start": {"a": "1"}}, "'a' is not a partition"),
        ({"start": {"0": "-1"}}, "'-1' is not an offset"),
        ({"start": {}}, "no partition is named"),
        ({"start": {"other": {"0": "1"}}}, "start names topic 'other', which the source does not read"),
        ({"topics": ["a"]}, "exactly one of topic, topics and pattern"),
        ({"topic": None}, "exactly one of topic, topics and pattern"),
        ({"topic": "a b"}, "'a b' is no topic name"),
        ({"topic": None, "pattern": "(("}, "is no regular expression"),
        ({"topic": None, "topics": ["a", "b"], "start": {"0": "1"}}, "with several topics write"),
        ({"brokers": " "}, "brokers is empty"),
        ({"brokers": " , "}, "brokers is empty"),
        ({"brokers": {"host": "a", "port": 9092}}, "is no broker: write host:port"),
        ({"brokers": "a:9092 b:9092"}, "'a:9092 b:9092' is no broker"),
        ({"brokers": ["a:9092", "b:70000"]}, "'b:70000' is no broker"),
        ({"brokers": "a:0"}, "'a:0' is no broker"),
        ({"properties": {"group.id": "g"}}, "properties may not set 'group.id': write `group:` instead"),
        ({"properties": {"auto.offset.reset": "latest"}}, "write `start:` instead"),
        ({"properties": {"isolation.level": "read_uncommitted"}}, "reads committed records only"),
        ({"properties": {"a": {"b": "c"}}}, "the value of 'a' is one text or number"),
        ({"properties": {"sasl.password": "***"}}, "stands for a hidden value"),
        ({"offset": "1"}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_with_a_source(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        source(**fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delivery": "exactly once"}, "Input should be 'at-least-once' or 'exactly-once'"),
        ({"delivery": "exactly-once", "transaction_timeout": "500ms"}, "transaction_timeout is between 1s and 24d"),
        ({"delivery": "exactly-once", "transaction_timeout": "25d"}, "transaction_timeout is between 1s and 24d"),
        ({"mode": "upsert"}, "mode: upsert needs key"),
        ({"mode": "upsert", "key": "k", "updates": "as_rows"}, "updates: as_rows goes with mode: append"),
        ({"key": ["a", "a"]}, "key names a column twice"),
        ({"key": []}, "at least 1 item"),
        ({"properties": {"acks": "1"}}, "properties may not set 'acks'"),
        ({"properties": {"transactional.id": "x"}}, "write `delivery:` instead"),
        ({"create_topic": {"partitions": "0"}}, "greater than or equal to 1"),
        ({"transaction_timeout": "0s"}, "greater than 0"),
        ({"transaction_timeout": "soon"}, "'soon' is not a duration"),
    ],
)
def test_what_is_wrong_with_a_sink(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        KafkaSinkConfig.model_validate(SINK | fields)
    assert message in str(raised.value)


def test_a_transaction_timeout_is_kept_for_exactly_once() -> None:
    assert KafkaSinkConfig.model_validate(SINK).transaction_timeout_ms == 15 * 60_000
    config = KafkaSinkConfig.model_validate(SINK | {"transaction_timeout": "30s"})
    assert config.transaction_timeout_ms == 30_000
    assert config.model_dump(by_alias=True)["transaction_timeout"] == "30s"


def test_what_a_source_says_of_itself() -> None:
    config = source(metadata={"offset": "at", "key": "k"})
    assert config.metadata_columns == {"offset": "at", "key": "k"}
    assert not config.bounded
    assert source(stop="latest").bounded
    assert config.describe_position(SplitId("t", 2), 17) == "t[2] offset 17"
    assert config.group_id(SourceContext("pipe", "node", schema_of({"a": "int64"}))) == "headrace-pipe-node"


def test_dead_letters_go_to_the_same_cluster_with_the_same_login() -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.password": "p", "fetch.min.bytes": "10"}
    made = source(properties=properties).dead_letter_sink("bad")
    assert made is not None
    name, fields = made
    sink = KafkaSinkConfig.model_validate(fields)
    assert name == "kafka"
    assert sink.topic == "bad"
    assert sink.properties == {"security.protocol": "SASL_SSL", "sasl.password": "p"}


def test_what_a_sink_says_of_itself() -> None:
    config = KafkaSinkConfig.model_validate(SINK | {"key": "a", "headers": {"h": "b", "i": "a"}})
    assert config.key_columns == ("a",)
    assert config.referenced_columns == ("a", "b")
    assert (config.accepts_updates, config.accepts_deletes, config.uses_event_time) == (False, False, False)
    upsert = KafkaSinkConfig.model_validate(SINK | {"key": ["a"], "mode": "upsert", "timestamp": "event"})
    assert (upsert.accepts_updates, upsert.accepts_deletes, upsert.uses_event_time) == (True, True, True)
    as_rows = KafkaSinkConfig.model_validate(SINK | {"updates": "as_rows"})
    assert (as_rows.accepts_updates, as_rows.accepts_deletes) == (True, False)


def test_a_password_travels_with_the_job_and_is_shown_to_nobody() -> None:
    secrets = {
        "sasl.password": "hush-0",
        "ssl.key.pem": "hush-1",
        "ssl.key.password": "hush-2",
        "sasl.oauthbearer.client.secret": "hush-3",
        "sasl.oauthbearer.config": "hush-4",
    }
    kafka = {"brokers": "b:9092", "topic": "t", "properties": {**secrets, "security.protocol": "SASL_SSL"}}
    pipeline = pipeline_from_dict(
        {
            "name": "p",
            "sources": {"rows": {"kafka": kafka, "format": "json", "schema": {"n": "int64"}}},
            "sinks": {"out": {"from": "rows", "kafka": kafka, "format": "json"}},
        }
    )

    assert pipeline_from_dict(pipeline.to_dict()) == pipeline
    for group, node in (("sources", "rows"), ("sinks", "out")):
        assert pipeline.to_dict()[group][node]["kafka"]["properties"].items() >= secrets.items()
        assert {pipeline.shown()[group][node]["kafka"]["properties"][name] for name in secrets} == {"***"}
    assert not any(value in repr(pipeline) for value in secrets.values())


@pytest.mark.parametrize(
    "brokers", ["a", "a:9092", "SASL_SSL://a.b-c_d:1,[::1]:9092", "[fe80::1%eth0]:9092", "10.0.0.1:9092,a:2", "a:1,"]
)
def test_what_librdkafka_takes_for_brokers(brokers: str) -> None:
    config = KafkaSourceConfig.model_validate({"brokers": brokers, "topic": "t"})
    assert config.brokers == brokers.rstrip(",")


DEFAULTS = CheckpointTerms(10_000, 600_000, True, 0, 60_000)


def sink(**fields: Any) -> KafkaSinkConfig:
    return KafkaSinkConfig.model_validate({"brokers": "b:1", "topic": "t", "delivery": "exactly-once"} | fields)


def context(terms: CheckpointTerms | None = None, **fields: Any) -> SinkContext:
    return SinkContext("job-1", "out", 1, 2, schema_of({"a": "int64"}), checkpoint=terms, **fields)


def test_the_defaults_work() -> None:
    assert sink().check(context(DEFAULTS)) == []
    assert sink().check(context()) == []
    assert sink().exactly_once
    assert sink().commit_within_ms == 900_000


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            CheckpointTerms(None, 600_000, True, 0, 60_000),
            "delivery: exactly-once makes rows visible when a checkpoint is committed, and there are no checkpoints\n"
            "  give checkpoint an interval, such as 10s, or write delivery: at-least-once",
        ),
        (
            CheckpointTerms(10_000, 600_000, False, 0, 60_000),
            "delivery: exactly-once needs aligned barriers, and checkpoint.mode is at-least-once\n"
            "  write checkpoint: {mode: exactly-once}, or delivery: at-least-once",
        ),
        (
            CheckpointTerms(10_000, 830_000, True, 0, 60_000),
            "a transaction may have to stay open for 15m (checkpoint.interval 10s + checkpoint.timeout 830s + "
            "the restart delay 1m), and the brokers would abort it after transaction_timeout 15m\n"
            "  lower checkpoint.timeout, or raise transaction_timeout above 15m (the brokers' "
            "transaction.max.timeout.ms, 15m by default, must allow it)",
        ),
        (
            CheckpointTerms(3_600_000, 600_000, True, 0, 0),
            "a transaction may have to stay open for 70m (checkpoint.interval 1h + checkpoint.timeout 10m + "
            "the restart delay 0s), and the brokers would abort it after transaction_timeout 15m\n"
            "  lower checkpoint.interval, or raise transaction_timeout above 70m (the brokers' "
            "transaction.max.timeout.ms, 15m by default, must allow it)",
        ),
    ],
)
def test_checkpoints_that_do_not_do(terms: CheckpointTerms, message: str) -> None:
    assert sink().check(context(terms)) == [message]
    assert sink(delivery="at-least-once").check(context(terms)) == []


def test_a_longer_transaction_makes_room() -> None:
    terms = CheckpointTerms(10_000, 830_000, True, 0, 60_000)
    assert sink(transaction_timeout="20m").check(context(terms)) == []


def test_names_of_a_writer() -> None:
    names = sink().transactions(context(CheckpointTerms(10_000, 1, True, 1, 1), attempt=65))
    assert names == tuple(f"headrace-job-1-out-1-1-{lane}" for lane in range(4))
    assert len(sink().transactions(context())) == 3
    plain = sink(delivery="at-least-once")
    assert (plain.transactions(context()), plain.commit_within_ms, plain.exactly_once) == ((), None, False)
    assert plain.open_committer(context()) is None


@pytest.mark.parametrize(
    ("properties", "timeout_ms", "message_ms", "socket_ms"),
    [
        ({}, 900_000, 300_000, 60_000),
        ({}, 30_000, 20_000, 30_000),
        ({"message.timeout.ms": "5000", "socket.timeout.ms": "4000"}, 900_000, 5_000, 4_000),
        ({"delivery.timeout.ms": "5000"}, 900_000, 5_000, 60_000),
        ({"message.timeout.ms": "0"}, 900_000, 600_000, 60_000),
        ({"message.timeout.ms": "900000", "socket.timeout.ms": "901000"}, 900_000, 600_000, 900_000),
        ({"message.timeout.ms": "soon", "socket.timeout.ms": "1s"}, 900_000, "soon", "1s"),
    ],
)
def test_time_limits_of_the_client(
    properties: dict[str, str], timeout_ms: int, message_ms: int | str, socket_ms: int | str
) -> None:
    rest, held = transaction_settings("n", timeout_ms, properties | {"linger.ms": "1"})
    assert rest == {"linger.ms": "1"}
    assert held == {
        "transactional.id": "n",
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": message_ms,
        "socket.timeout.ms": socket_ms,
    }
    assert message_timeout_ms(properties, timeout_ms) < timeout_ms
