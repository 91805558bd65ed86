"""A topic read back: proven, and every way in which it is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.checkpoint.manifest import OutputTotal
from headrace.client.models import SinkAudit
from headrace.coordinator.output.job_audit import JobAudit
from headrace.coordinator.output.job_handle import ToolHosts
from headrace.core.digest import digest_of
from headrace.core.errors import UserError
from headrace.core.text.digest_text import digest_text
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.transactions.audit import output_begin
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, delete_topic, produce
from support.kafka.left_job import DECIDED, Left
from support.processes.running import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]


def total(begin: dict[str, object], values: list[bytes]) -> OutputTotal:
    return OutputTotal(
        rows=len(values), digest=digest_text(digest_of(pa.array(values, pa.large_binary()))), begin=begin
    )


def audited(left: Left) -> SinkAudit:
    told: list[str] = []
    (sink,) = asyncio.run(JobAudit(ToolHosts()).run(left.held, told.append)).sinks
    assert told
    return sink


def test_a_topic_is_proven_until_somebody_else_writes_to_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    config = KafkaSinkSettings.model_validate({"brokers": broker.bootstrap, "topic": left.topic})
    begin = {**output_begin(config), "offsets": {"0": 0}}
    left.write_journal((), total(begin, [f"{DECIDED} {number}".encode() for number in range(3)]))

    held_back = audited(left)
    assert (held_back.verdict, held_back.rows) == ("unprovable", 0)
    assert "open transactions block readers" in held_back.reasons[0]

    left.settle(committed=True)
    proven = audited(left)
    assert (proven.verdict, proven.rows, proven.epoch, proven.reasons) == ("proven", 3, 4, ())

    produce(broker, left.topic, [b"foreign"])
    foreign = audited(left)
    assert (foreign.verdict, foreign.rows, foreign.expected_rows) == ("unprovable", 4, 3)
    assert "1 rows more" in foreign.reasons[0]


def test_rows_that_are_missing_or_others_are_told(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.settle(committed=True)
    begin: dict[str, object] = {"topic": left.topic, "offsets": {"0": 0}}
    left.write_journal((), total(begin, [b"a", b"b", b"c", b"d"]))
    found = audited(left)
    assert (found.verdict, found.rows, found.expected_rows) == ("differs", 3, 4)
    assert found.reasons == ("1 rows are missing",)


def test_a_topic_made_anew_has_lost_nothing_that_the_job_could_keep(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.settle(committed=True)
    config = KafkaSinkSettings.model_validate({"brokers": broker.bootstrap, "topic": left.topic})
    rows = [f"{DECIDED} {number}".encode() for number in range(3)]
    left.write_journal((), total({**output_begin(config), "offsets": {"0": 0}}, rows))
    assert audited(left).verdict == "proven"
    delete_topic(broker, left.topic)
    create_topic(broker, left.topic, 1)
    produce(broker, left.topic, rows[:2])
    found = audited(left)
    assert (found.verdict, found.rows) == ("unprovable", 2)
    assert found.reasons == ("the topic was created again, or is one of another cluster",)


def test_a_job_without_an_account_is_refused(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.write_journal(())
    with pytest.raises(UserError, match="keeps no account"):
        audited(left)
    left.settle(committed=False)


def test_compaction_and_expired_records_are_no_proof(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.settle(committed=True)
    compact(broker, left.topic)
    begin: dict[str, object] = {"topic": left.topic, "offsets": {"0": 0}}
    left.write_journal((), total(begin, [f"{DECIDED} {number}".encode() for number in range(3)]))
    assert audited(left).verdict == "proven"

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for answer in admin.delete_records([TopicPartition(left.topic, 0, 2)]).values():
        answer.result()
    found = audited(left)
    assert (found.verdict, found.rows) == ("unprovable", 1)
    assert found.reasons == (
        f"2 offsets have expired: {left.topic}[0] begins at 2, the job at 0",
        "the topic is compacted: it keeps only the last record of each key",
    )


def compact(broker: EmbeddedBroker, topic: str) -> None:
    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result()

    def is_compacted() -> bool:
        (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return bool(found.result()["cleanup.policy"].value == "compact,delete")

    wait_until(is_compacted, "the broker knows that it compacts the topic")
