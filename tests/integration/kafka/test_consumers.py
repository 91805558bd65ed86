"""What both consumers promise to the reader beyond rows: memory, ends, outages, settings; and who takes which."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from headrace.connect.source import MessageBatch, SourceContext, Split, SplitId
from headrace.core.errors import ExternalError, UserError
from headrace.core.types import schema_of
from headrace.testing.source_conformance import Received, read_to_end
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_connectors.kafka.source.consumers import ClientConsumer, NativeConsumer
from headrace_connectors.kafka.source.reader import KafkaReader
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.broker

WAIT_S = WAIT_SECONDS
MANY = 60_000


def reader_of(broker: EmbeddedBroker, topics: list[str], **wants: Any) -> KafkaReader:
    config = KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topics": topics})
    return KafkaReader(config, SourceContext("p", "n", schema_of({"v": "string"}), "raw", **wants))


def poll_batches(reader: KafkaReader, rows: int) -> list[MessageBatch]:
    """Batches of at least as many rows."""
    batches: list[MessageBatch] = []
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, batches)) < rows:
        assert time.monotonic() < deadline, f"{sum(map(len, batches))} of {rows} rows"
        batch = reader.poll(50).batch
        if batch is not None:
            assert isinstance(batch, MessageBatch)
            batches.append(batch)
    return batches


@pytest.fixture(scope="module")
def long_topic(broker: EmbeddedBroker) -> str:
    topic = create_topic(broker, unique_topic("long"), 1)
    produce(broker, topic, [f"{n:0100}" for n in range(MANY)], partition=0)
    return topic


@pytest.mark.usefixtures("consumer_kind")
def test_every_length_of_value_and_key(broker: EmbeddedBroker) -> None:
    """Arrow keeps up to 12 bytes elsewhere than longer ones; nothing and no value are not the same."""
    topic = create_topic(broker, unique_topic("lengths"), 1)
    values = [None if n % 7 == 6 else bytes([n % 256]) * (n % 40) for n in range(500)] + [b"x" * 500_000]
    keys = [None if n % 5 == 4 else bytes([n % 251]) * (n % 20) for n in range(501)]
    produce(broker, topic, values, keys=keys, partition=0)
    reader = reader_of(broker, [topic], wants_keys=True)
    reader.assign([Split(SplitId(topic, 0), 0)])
    batches = poll_batches(reader, len(values))
    reader.close()
    for batch in batches:
        batch.values.validate(full=True)
    assert [value for batch in batches for value in batch.values.to_pylist()] == values
    assert [key for batch in batches if batch.keys is not None for key in batch.keys.to_pylist()] == keys


@pytest.mark.usefixtures("consumer_kind")
def test_topics_and_partitions_are_kept_apart(broker: EmbeddedBroker) -> None:
    topics = [create_topic(broker, unique_topic(f"several-{n}"), 3) for n in range(3)]
    for topic in topics:
        numbers = range(3_000)
        produce(
            broker,
            topic,
            [f"{topic}-{n % 3}-{n // 3}" for n in numbers],
            partition=[n % 3 for n in numbers],
            timestamps=[1_700_000_000_000 + n // 3 for n in numbers],
        )
    reader = reader_of(broker, topics, wants_timestamps=True)
    reader.assign([Split(SplitId(topic, number), 0, 1_000) for topic in topics for number in range(3)])
    seen: dict[SplitId, int] = {}
    for batch in poll_batches(reader, 9_000):
        values = batch.values.to_pylist()
        assert batch.timestamps is not None
        for run in batch.runs:
            begin = seen.get(run.split, 0)
            end = seen[run.split] = begin + run.end - run.begin
            assert batch.positions[run.begin : run.end].tolist() == list(range(begin, end))
            assert (batch.timestamps[run.begin : run.end] - 1_700_000_000_000).tolist() == list(range(begin, end))
            name = f"{run.split.topic}-{run.split.partition}"
            assert values[run.begin : run.end] == [f"{name}-{n}".encode() for n in range(begin, end)]
    reader.close()
    assert set(seen.values()) == {1_000}


def test_memory_stays_flat(broker: EmbeddedBroker, long_topic: str) -> None:
    """A message that is not released keeps its whole batch: 60,000 of them are over 6 MB a round, 60 MB in ten. In a
    process of its own, for what others have left free would hide it, or count as growth. On a busy machine buffers of
    several rounds may be there at a time, 30 MB of them: the least of the last rounds counts."""
    script = f"""
import psutil
from headrace.connect.source import SourceContext, Split, SplitId
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
config = KafkaSourceConfig.model_validate({{"brokers": {broker.bootstrap!r}, "topic": {long_topic!r}}})
for _ in range(25):
    reader = config.open_reader(SourceContext("p", "n", schema_of({{"v": "string"}}), "raw"))
    reader.assign([Split(SplitId({long_topic!r}, 0), 0, {MANY})])
    rows = 0
    while rows < {MANY}:
        batch = reader.poll(50).batch
        rows += 0 if batch is None else len(batch)
    reader.close()
    print(psutil.Process().memory_info().rss)
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=WAIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    used = [int(line) for line in done.stdout.split()]
    assert min(used[15:]) - used[4] < 30 << 20, used


@pytest.mark.usefixtures("consumer_kind")
def test_what_a_poll_gave_outlives_the_reader(broker: EmbeddedBroker, long_topic: str) -> None:
    reader = reader_of(broker, [long_topic])
    reader.assign([Split(SplitId(long_topic, 0), 0, 20_000)])
    batches = poll_batches(reader, 20_000)
    reader.close()
    assert [value for batch in batches for value in batch.values.to_pylist()] == [
        f"{n:0100}".encode() for n in range(20_000)
    ]


@pytest.mark.usefixtures("consumer_kind")
def test_close_with_unread_records(broker: EmbeddedBroker, long_topic: str) -> None:
    """The client's own threads end, whatever they had fetched ahead."""

    def use() -> None:
        reader = reader_of(broker, [long_topic], poll_rows_max=1)
        reader.assign([Split(SplitId(long_topic, 0), 0)])
        poll_batches(reader, 1)
        reader.commit({SplitId(long_topic, 0): 1})
        reader.close()

    process = psutil.Process()
    # threads of other libraries that begin with the first use stay
    use()
    before = process.num_threads()
    use()
    wait_until(lambda: process.num_threads() <= before, "threads of the client")


@pytest.mark.parametrize("closing", [True, False])
def test_the_process_ends_with_or_without_close(
    broker: EmbeddedBroker, long_topic: str, consumer_kind: str, closing: bool
) -> None:
    script = f"""
import headrace_connectors.kafka.source.reader as consumers
from headrace.connect.source import SourceContext, Split, SplitId
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSourceConfig
if {consumer_kind!r} == "client":
    consumers.library = lambda: None
config = KafkaSourceConfig.model_validate({{"brokers": {broker.bootstrap!r}, "topic": {long_topic!r}}})
reader = config.open_reader(SourceContext("p", "n", schema_of({{"v": "string"}}), "raw"))
reader.assign([Split(SplitId({long_topic!r}, 0), 0)])
while reader.poll(50).batch is None:
    pass
if {closing}:
    reader.close()
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=WAIT_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("consumer_kind")
@pytest.mark.parametrize("properties", [{"no.such.setting": "1"}, {"fetch.min.bytes": "few"}])
def test_settings_that_are_not_valid(properties: dict[str, str]) -> None:
    config = KafkaSourceConfig.model_validate({"brokers": "127.0.0.1:9", "topic": "t", "properties": properties})
    with pytest.raises(UserError, match=rf"settings are not valid: .*{next(iter(properties))}"):
        config.open_reader(SourceContext("p", "n", schema_of({"v": "string"}), "raw"))


@pytest.mark.usefixtures("consumer_kind")
@pytest.mark.parametrize("identity", ["", "cluster/topic"])
def test_a_login_that_is_refused(broker: EmbeddedBroker, identity: str) -> None:
    """Errors of the client, not of a partition, come by its callback; with an identity first by that of its admin."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
    }
    config = KafkaSourceConfig.model_validate({"brokers": broker.bootstrap, "topic": "t", "properties": login})
    reader = KafkaReader(config, SourceContext("p", "n", schema_of({"v": "string"}), "raw"))
    reader.assign([Split(SplitId("t", 0), 0, identity=identity)])
    deadline = time.monotonic() + WAIT_S
    with pytest.raises(ExternalError, match="refused the login"):
        while time.monotonic() < deadline:
            reader.poll(50)
    reader.close()


@pytest.mark.full  # `engine/test_faults` kills it below a run
@pytest.mark.parametrize("consumer_kind", ["native"], indirect=True)
def test_a_killed_broker_is_waited_for(own_broker: EmbeddedBroker, consumer_kind: str) -> None:
    """No row is lost or comes twice; positions that were to be published in the outage are published or forgotten."""
    topic = create_topic(own_broker, unique_topic(consumer_kind), 2)
    produce(own_broker, topic, [f"a{n}" for n in range(100)], partition=[n % 2 for n in range(100)])
    reader = reader_of(own_broker, [topic])
    splits = [Split(SplitId(topic, number), 0, 100) for number in range(2)]
    reader.assign(splits)
    received = Received()
    deadline = time.monotonic() + WAIT_S
    while sum(len(rows) for rows in received.rows.values()) < 100:
        assert time.monotonic() < deadline
        received.take(reader.poll(50))
    own_broker.kill()
    reader.commit({splits[0].id: 50})
    for _ in range(20):
        received.take(reader.poll(50))
    own_broker.start()
    produce(own_broker, topic, [f"b{n}" for n in range(100)], partition=[n % 2 for n in range(100)])
    read_to_end(reader, splits, received)
    reader.close()
    for split in splits:
        number = split.id.partition
        assert received.at[split.id] == list(range(100))
        assert received.rows[split.id] == [
            f"{part}{n}".encode() for part in "ab" for n in range(100) if n % 2 == number
        ]


@pytest.mark.parametrize("wants_headers", [False, True])
def test_without_kernels_records_come_one_by_one(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, wants_headers: bool
) -> None:
    kinds = []
    for _ in range(2):
        reader = reader_of(broker, ["t"], wants_headers=wants_headers)
        kinds.append(type(reader._fetcher))
        reader.close()
        monkeypatch.setattr("headrace.kernels.kafka.take.is_loaded", lambda: False)
    assert kinds == [NativeConsumer, ClientConsumer]
