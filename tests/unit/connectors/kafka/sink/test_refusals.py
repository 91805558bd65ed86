"""Which errors of brokers are the data's, and when the brokers are asked for a topic's limits."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from headrace.core.batch import OP, TS
from headrace.core.errors import DataError, Domain
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.records import Records, delivery_failed
from headrace_connectors.kafka.sink.refusals import RefusedRecords, TopicLimits, limits_of, without_event_time

CONFIG = KafkaSinkSettings.model_validate({"brokers": "b:1", "topic": "t"})


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,
        KafkaError.POLICY_VIOLATION,
    ],
)
def test_a_refusal_of_a_record_is_an_error_of_the_data(code: int) -> None:
    error = delivery_failed(KafkaError(code), "t", "b:1")
    assert isinstance(error, DataError)
    assert (error.domain, error.retry) == (Domain.USER, False)
    assert error.remedy


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._FENCED])
def test_a_failure_of_brokers_is_not(code: int) -> None:
    assert delivery_failed(KafkaError(code), "t", "b:1").domain is Domain.EXTERNAL


def test_brokers_are_asked_only_about_rows_in_doubt_and_again_before_a_refusal() -> None:
    answers = [TopicLimits(), TopicLimits(compacted=True)]
    asked: list[TopicLimits] = []

    def read() -> TopicLimits:
        asked.append(answers[min(len(asked), 1)])
        return asked[-1]

    refusals = RefusedRecords(CONFIG, read)
    rows = pl.DataFrame({"n": [1]})
    value = pa.array([b"v"], pa.large_binary())
    assert not refusals.refused(rows, Records(value, pa.array([b"k"], pa.large_binary())))
    assert not asked
    assert not refusals.refused(rows, Records(value))
    assert not refusals.refused(rows, Records(value))
    assert len(asked) == 1
    refusals._limits = TopicLimits(compacted=True)
    assert "has no key" in refusals.refused(rows, Records(value))[0].why
    assert len(asked) == 2


def test_a_delete_needs_no_event_time() -> None:
    rows = pl.DataFrame({"n": [1, 2], TS: [5, None], OP: [False, True]}, schema_overrides={TS: pl.Int64})
    assert not without_event_time(rows)
    refused = without_event_time(rows.with_columns(pl.lit(value=False).alias(OP)))
    assert list(refused) == [1]
    assert "no event time" in refused[1].why


NONE = str(2**63 - 1)


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, TopicLimits()),
        ({"cleanup.policy": "compact,delete"}, TopicLimits(compacted=True)),
        ({"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}, TopicLimits()),
        ({"message.timestamp.type": "LogAppendTime"}, TopicLimits(assigns_times=True)),
        ({"message.timestamp.difference.max.ms": "60"}, TopicLimits(before_max_ms=60, after_max_ms=60)),
        (
            {"message.timestamp.before.max.ms": NONE, "message.timestamp.after.max.ms": "3600000"},
            TopicLimits(after_max_ms=3_600_000),
        ),
        ({"message.timestamp.before.max.ms": None}, TopicLimits()),
    ],
)
def test_the_limits_in_a_topics_settings(settings: dict[str, str | None], limits: TopicLimits) -> None:
    assert limits_of(settings) == limits
