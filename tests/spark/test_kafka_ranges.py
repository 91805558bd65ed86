"""Ranges of topics that do not end where their last record is: what a replay reads of them, and what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError
from headrace.core.settings import Home
from headrace.spark.driver.replay import ReplayOutcome
from headrace.spark.launch.replay import ReplayOptions, prepare
from headrace.spark.task.output.staging_end import read_staged
from headrace.spec.reading.load import load_text
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, unique_topic
from support.kafka.log_ends import wait_settled
from support.processes.running import WAIT_SECONDS
from support.spark.local_exchange import LocalExchange
from support.storage.archive import delete_records

pytestmark = pytest.mark.broker

PIPELINE = """
name: ranges
sources:
  made:
    kafka: {{brokers: "{brokers}", topic: "{topic}"}}
    format: json
    schema: {{n: int64 not null}}
sinks:
  out: {{from: made, print: {{}}}}
"""


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """Two partitions: numbers 0 to 49, each of the ten transactions with a control record behind it; then an aborted
    one, whose control record is the last thing in the log."""
    name = create_topic(broker, unique_topic("ranges"), 2)
    producer = transactional(broker)

    def send(numbers: range) -> None:
        producer.begin_transaction()
        for number in numbers:
            producer.produce(name, json.dumps({"n": number}), partition=number % 2)

    for begin in range(0, 50, 5):
        send(range(begin, begin + 5))
        producer.commit_transaction(WAIT_SECONDS)
    send(range(1_000, 1_010))
    assert producer.flush(WAIT_SECONDS) == 0
    producer.abort_transaction(WAIT_SECONDS)
    wait_settled(broker.bootstrap, name)
    return name


def transactional(broker: EmbeddedBroker) -> Producer:
    """A producer whose transactions stay open until it ends them."""
    settings = {"bootstrap.servers": broker.bootstrap, "transaction.timeout.ms": 600_000}
    producer = Producer({**settings, "transactional.id": unique_topic("made")})
    producer.init_transactions(WAIT_SECONDS)
    return producer


def replay(broker: EmbeddedBroker, topic: str, folder: Path, **options: str) -> ReplayOutcome:
    """Its rows left staged."""
    model = load_text(PIPELINE.format(brokers=broker.bootstrap, topic=topic), "ranges.yaml", environ={}).pipeline
    asked = ReplayOptions(publish=False, begin=options.get("begin"), end=options.get("end"))
    return prepare(model, asked, Home(folder)).replay(LocalExchange(5), lambda _: None).run()


def numbers(outcome: ReplayOutcome) -> Counter[int]:
    store = open_store(outcome.storage)
    return Counter(
        number for share in outcome.staged for rows in read_staged(share.files, store) for number in rows["n"].to_list()
    )


def test_control_records_at_the_end_and_aborted_rows(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    assert numbers(replay(broker, topic, tmp_path)) == Counter(range(50))


def test_a_range_that_ends_at_a_control_record(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    # partition 0: 0 2 4 c 6 8 c ..: position 3 is the first transaction's control record, position 4 lies behind it
    for end, last in (("3", 4), ("4", 4), ("5", 6)):
        found = numbers(replay(broker, topic, tmp_path / end, end=json.dumps({"0": int(end), "1": 0})))
        assert found == Counter(range(0, last + 1, 2)), end


def test_an_open_transaction_ends_the_range_before_it(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    other = transactional(broker)
    other.begin_transaction()
    other.produce(topic, json.dumps({"n": 5_000}), partition=0)
    assert other.flush(WAIT_SECONDS) == 0
    assert numbers(replay(broker, topic, tmp_path)) == Counter(range(50))
    other.abort_transaction(WAIT_SECONDS)


def test_a_start_that_has_expired_is_refused(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    delete_records(broker, topic, {0: 10})
    with pytest.raises(UserError, match=f"{topic} partition 0: offset 0 has expired"):
        replay(broker, topic, tmp_path, begin=json.dumps({"0": 0, "1": 0}))
    # from what there is: the first ten positions of partition 0 are gone
    kept = numbers(replay(broker, topic, tmp_path / "kept"))
    assert all(count == 1 for count in kept.values())
    assert {number for number in kept if number % 2} == set(range(1, 50, 2))
    assert min(number for number in kept if number % 2 == 0) > 0
