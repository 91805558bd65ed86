"""Records that Kafka refuses for themselves end a job at once: the error is the data's, and names the row if any."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.connect.row_check import Refuse, Refused
from headrace.connect.sink import CheckpointTerms, SinkBatch, SinkContext, Writer
from headrace.core.batch import TS
from headrace.core.errors import DataError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.kafka.log_ends import admin_client

pytestmark = [pytest.mark.broker]

SCHEMA = schema_of({"k": "string", "n": "int64"})
DAY_MS = 86_400_000
DELIVERIES = ("at-least-once", "exactly-once")


@pytest.fixture(params=DELIVERIES)
def delivery(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened() -> Iterator[list[Writer]]:
    writers: list[Writer] = []
    yield writers
    for writer in writers:
        writer.close()


def open_writer(
    broker: EmbeddedBroker, opened: list[Writer], topic: str, *, refuse: Refuse | None = None, **fields: Any
) -> Writer:
    config = KafkaSinkConfig.model_validate({"brokers": broker.bootstrap, "topic": topic} | fields)
    terms = CheckpointTerms(1_000, 60_000, aligned=True, tolerable_failures=0, restart_delay_ms=1_000)
    context = SinkContext(unique_topic("job"), "out", 0, 1, SCHEMA, format="json", attempt=1, checkpoint=terms)
    context = replace(context, refuse=refuse)
    writer = config.open_writer(context)
    opened.append(writer)
    return writer


def batch(keys: list[str | None], values: list[str], times: list[int | None] | None = None) -> SinkBatch:
    stamps = [round(time.time() * 1000)] * len(keys) if times is None else times
    rows = pl.DataFrame(
        {"k": keys, "n": list(range(len(keys))), TS: stamps}, schema_overrides={"k": pl.String, TS: pl.Int64}
    )
    return SinkBatch(rows, pa.array(values, pa.large_string()))


def set_topic(broker: EmbeddedBroker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin_client(broker.bootstrap).incremental_alter_configs([resource])[resource].result()


def test_a_record_that_is_too_large_is_named_with_its_size(
    broker: EmbeddedBroker, opened: list[Writer], delivery: str
) -> None:
    topic = create_topic(broker, unique_topic("large"), 1)
    writer = open_writer(broker, opened, topic, delivery=delivery)
    with pytest.raises(DataError, match=r"record of a row has 1,800,036 bytes.*1,000,000.*'n': 1") as raised:
        writer.write(batch(["a", "b", "c"], ["x", "x" * 1_800_000, "x"]))
    assert raised.value.remedy is not None
    assert not raised.value.retry
    assert consume_all(broker, topic) == []


def test_a_row_without_a_key_is_named_in_a_compacted_topic(
    broker: EmbeddedBroker, opened: list[Writer], delivery: str
) -> None:
    topic = create_topic(broker, unique_topic("compact"), 1)
    set_topic(broker, topic, "cleanup.policy", "compact")
    writer = open_writer(broker, opened, topic, delivery=delivery, key="k")
    with pytest.raises(DataError, match=r"no key, and topic .* cleanup.policy=compact.*'n': 1"):
        writer.write(batch(["a", None, "c"], ["1", "2", "3"]))


@pytest.mark.parametrize(("ahead_ms", "setting"), [(3 * DAY_MS, "after"), (-3 * DAY_MS, "before")])
def test_a_time_that_the_topic_refuses_is_named(
    broker: EmbeddedBroker, opened: list[Writer], delivery: str, ahead_ms: int, setting: str
) -> None:
    topic = create_topic(broker, unique_topic("times"), 1)
    set_topic(broker, topic, f"message.timestamp.{setting}.max.ms", "3600000")
    writer = open_writer(broker, opened, topic, delivery=delivery, timestamp="event")
    now = round(time.time() * 1000)
    with pytest.raises(DataError, match=rf"timestamp.{setting}.max.ms of topic .* is 3,600,000.*'n': 1"):
        writer.write(batch(["a", "b"], ["1", "2"], [now, now + ahead_ms]))


def test_a_topic_that_is_changed_is_asked_again(broker: EmbeddedBroker, opened: list[Writer]) -> None:
    topic = create_topic(broker, unique_topic("changed"), 1)
    writer = open_writer(broker, opened, topic, timestamp="event")
    now = round(time.time() * 1000)
    writer.write(batch(["a"], ["1"], [now]))
    set_topic(broker, topic, "message.timestamp.after.max.ms", str(9 * DAY_MS))
    writer.write(batch(["a"], ["2"], [now + 3 * DAY_MS]))
    writer.flush(1)
    assert len(consume_all(broker, topic)) == 2


@pytest.mark.parametrize(
    ("setting", "value", "fields", "values", "remedy"),
    [
        ("max.message.bytes", "2000", {"properties": {"compression.type": "none"}}, ["x" * 5_000], "max.message.bytes"),
        ("cleanup.policy", "compact", {}, ["1", "2"], "needs a key"),
    ],
)
def test_what_only_the_broker_refuses_is_an_error_of_the_data_too(
    broker: EmbeddedBroker,
    opened: list[Writer],
    delivery: str,
    setting: str,
    value: str,
    fields: dict[str, Any],
    values: list[str],
    remedy: str,
) -> None:
    topic = create_topic(broker, unique_topic("late"), 1)
    writer = open_writer(broker, opened, topic, delivery=delivery, **fields)
    # the writer has read the topic's settings
    writer.write(batch(["a"], ["1"]))
    writer.flush(1)
    set_topic(broker, topic, setting, value)
    with pytest.raises(DataError) as raised:
        # the broker takes the setting over after it has confirmed it
        for epoch in range(2, 1_000):
            writer.write(batch(["a"] * len(values), values))
            writer.flush(epoch)
    assert not raised.value.retry
    assert remedy in (raised.value.remedy or "")


@pytest.mark.parametrize("at_ms", [None, 0, -1])
def test_a_time_that_no_record_can_carry_is_refused(
    broker: EmbeddedBroker, opened: list[Writer], at_ms: int | None
) -> None:
    topic = create_topic(broker, unique_topic("epoch"), 1)
    writer = open_writer(broker, opened, topic, timestamp="event")
    with pytest.raises(DataError, match=r"event time.*`timestamp: event` needs one.*'n': 1"):
        writer.write(batch(["a", "b"], ["1", "2"], [1, at_ms]))


def test_other_times_around_the_epoch_are_kept(broker: EmbeddedBroker, opened: list[Writer]) -> None:
    topic = create_topic(broker, unique_topic("early"), 1)
    writer = open_writer(broker, opened, topic, timestamp="event")
    writer.write(batch(["a", "b"], ["1", "2"], [1, 1_000]))
    writer.flush(1)
    assert [record.timestamp for record in consume_all(broker, topic)] == [1, 1_000]


def test_refused_rows_are_left_out_with_their_reasons_and_the_others_written(
    broker: EmbeddedBroker, opened: list[Writer]
) -> None:
    topic = create_topic(broker, unique_topic("left"), 1)
    set_topic(broker, topic, "cleanup.policy", "compact")
    set_topic(broker, topic, "message.timestamp.after.max.ms", "3600000")
    refused: dict[int, str] = {}

    def refuse(rows: pl.DataFrame, bad: Refused) -> None:
        refused.update({rows.get_column("n")[row]: refusal.why for row, refusal in bad.items()})

    writer = open_writer(broker, opened, topic, refuse=refuse, key="k", timestamp="event")
    now = round(time.time() * 1000)
    keys = ["a", None, "c", "d", "e", "f", None]
    values = ["0", "1", "2", "3" * 1_800_000, "4", "5", "6"]
    times: list[int | None] = [now, now, now + 3 * DAY_MS, now, None, now, None]
    writer.write(batch(keys, values, times))
    writer.write(batch([None], ["all refused"], [now]))
    writer.flush(1)
    assert [record.value for record in consume_all(broker, topic)] == [b"0", b"5"]
    assert {n: why.split(",")[0].split(" is ")[0] for n, why in refused.items()} == {
        0: "a row has no key",
        1: "a row has no key",
        2: "the event time of a row",
        3: "the record of a row has 1",
        4: "a row has no event time",
        6: "a row has no event time",
    }
