"""The worker's half of exactly-once: what a writer prepares, what it leaves behind, and what stops it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import confluent_kafka
import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headrace.connect.sink import CheckpointTerms, Committable, SinkBatch, SinkContext
from headrace.core.batch import OP, TS
from headrace.core.digest import digest_of
from headrace.core.errors import DataError, ExternalError, UserError
from headrace.core.text.digest_text import add_digests, digest_text
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.librdkafka.tested_versions import version_of, version_text
from headrace_connectors.kafka.sink import client_producer, producers
from headrace_connectors.kafka.sink.transactional_writer import TransactionalWriter
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import Broker, consume_all, create_topic, unique_topic
from support.kafka.raw_transactions import RawTransactions, raw_transactions
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

SCHEMA = schema_of({"k": "string", "n": "int64"})


@pytest.fixture
def raw(broker: EmbeddedBroker) -> Iterator[RawTransactions]:
    with raw_transactions(broker) as opened:
        yield opened


class Feeder:
    """A writer under test and the job that it believes to be in."""

    def __init__(self, broker: Broker, topic: str, *, tolerable_failures: int = 0, **fields: Any) -> None:
        self.topic = topic
        given = {"brokers": broker.bootstrap, "topic": topic, "key": "k", "delivery": "exactly-once"} | fields
        self.config = KafkaSinkConfig.model_validate(given)
        terms = CheckpointTerms(1_000, 1_000, True, tolerable_failures, 0)
        self.context = SinkContext(unique_topic("j"), "out", 0, 1, SCHEMA, format="json", attempt=1, checkpoint=terms)
        self.names = self.config.transactions(self.context)
        self.writer = TransactionalWriter(self.config, self.context)

    def write(self, *numbers: int, key: str = "a") -> None:
        self.writer.write(batch([key] * len(numbers), numbers))

    def prepare(self, epoch: int, *numbers: int) -> Sequence[Committable]:
        self.write(*numbers)
        return self.writer.flush(epoch)


@pytest.fixture
def feeders() -> Iterator[list[Feeder]]:
    """Feeders put in here are closed."""
    opened: list[Feeder] = []
    yield opened
    for feeder in opened:
        feeder.writer.close()


def batch(keys: Sequence[str | None], numbers: Sequence[int], deleted: list[bool] | None = None) -> SinkBatch:
    rows = pl.DataFrame({"k": keys, "n": numbers, TS: [1_700_000_000_000] * len(keys)})
    if deleted is not None:
        rows = rows.with_columns(pl.Series(OP, deleted))
    return SinkBatch(rows, pa.array([f"v{number}" for number in numbers], pa.large_string()))


def visible(broker: EmbeddedBroker, topic: str) -> list[str]:
    return [(record.value or b"-").decode() for record in consume_all(broker, topic)]


def written(broker: EmbeddedBroker, topic: str) -> list[str]:
    return [(record.value or b"-").decode() for record in consume_all(broker, topic, "read_uncommitted")]


@pytest.fixture
def feeder(broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]) -> Feeder:
    made = Feeder(broker, create_topic(broker, unique_topic("exact"), 1))
    feeders.append(made)
    return made


def test_rows_appear_with_the_commit_and_not_before(
    broker: EmbeddedBroker, raw: RawTransactions, feeder: Feeder
) -> None:
    """Epoch after epoch, in the order in which they were written; the next one's rows may wait beside them."""
    expected: list[str] = []
    for epoch in range(1, 6):
        numbers = range(epoch * 10, epoch * 10 + 3)
        (prepared,) = feeder.prepare(epoch, *numbers)
        assert raw.state(prepared.name) == "Ongoing"
        feeder.write(epoch)
        assert visible(broker, feeder.topic) == expected
        raw.commit(prepared.name)
        feeder.writer.committed(epoch, {})
        expected += [f"v{number}" for number in numbers] if epoch == 1 else [f"v{epoch - 1}"]
        expected += [] if epoch == 1 else [f"v{number}" for number in numbers]
    # the row that is open holds back nobody: it is the last of the log
    assert visible(broker, feeder.topic) == expected
    assert written(broker, feeder.topic)[: len(expected)] == expected
    assert {name for name in feeder.names if raw.describe(name)} == set(feeder.names)


def test_what_a_committable_says(broker: EmbeddedBroker, raw: RawTransactions, feeder: Feeder) -> None:
    feeder.writer.write(batch(["a", None], [1, 2]))
    feeder.writer.write(batch(["b"], [3]))
    (prepared,) = feeder.writer.flush(7)
    digest = add_digests(
        digest_of(pa.array([b"v1", b"v2"], pa.large_binary()), pa.array([b"a", None], pa.large_binary())),
        digest_of(pa.array([b"v3"], pa.large_binary()), pa.array([b"b"], pa.large_binary())),
    )
    producer = {"library": "librdkafka", "version": version_text(version_of(confluent_kafka.libversion()[1]))}
    payload = {"topic": feeder.topic, "protocol": "TV1", "producer": producer}
    assert prepared == Committable("out", 0, 7, payload, feeder.names[0], rows=3, digest=digest_text(digest))
    found = raw.describe(prepared.name)
    assert found is not None
    assert found.timeout_ms == 900_000
    raw.commit(prepared.name)
    records = consume_all(broker, feeder.topic)
    sent = [pa.array([each.value for each in records]), pa.array([each.key for each in records])]
    assert digest_text(digest_of(*sent)) == prepared.digest, "the digest of what stands in the topic"


def test_a_transaction_is_shown_until_it_is_committed(feeder: Feeder) -> None:
    writer = feeder.writer
    assert writer.transactions() == []
    feeder.write(1)
    (opened,) = writer.transactions()
    assert (opened.sink, opened.prepared, opened.age_ms >= 0) == ("out", False, True)

    (prepared,) = writer.flush(1)
    feeder.write(2)
    shown = {each.name: each.prepared for each in writer.transactions()}
    assert shown == {opened.name: True, next(name for name in shown if name != opened.name): False}
    ages_ms = [each.age_ms for each in writer.transactions()]
    assert ages_ms == sorted(ages_ms, reverse=True)
    assert prepared.name == opened.name

    writer.committed(1, {})
    assert [each.name for each in writer.transactions()] == [name for name in shown if name != opened.name]


def test_tombstones_headers_and_time(broker: EmbeddedBroker, raw: RawTransactions, feeders: list[Feeder]) -> None:
    topic = create_topic(broker, unique_topic("exact"), 1)
    feeder = Feeder(broker, topic, mode="upsert", headers={"h": "k"}, timestamp="event")
    feeders.append(feeder)
    feeder.writer.write(batch(["a", "b"], [1, 2], [False, True]))
    (prepared,) = feeder.writer.flush(1)
    raw.commit(prepared.name)
    assert [(r.key, r.value, r.headers, r.timestamp) for r in consume_all(broker, topic)] == [
        (b"a", b"v1", (("h", b"a"),), 1_700_000_000_000),
        (b"b", None, (("h", b"b"),), 1_700_000_000_000),
    ]


def test_rows_without_a_key_spread_over_epochs(
    broker: EmbeddedBroker, raw: RawTransactions, producer_kind: str, feeders: list[Feeder]
) -> None:
    feeder = Feeder(broker, create_topic(broker, unique_topic("exact"), 3), key=None)
    feeders.append(feeder)
    for epoch in (1, 2, 3):
        (prepared,) = feeder.prepare(epoch, *range(4_000))
        raw.commit(prepared.name)
        feeder.writer.committed(epoch, {})
    partitions = [record.partition for record in consume_all(broker, feeder.topic)]
    assert [partitions.count(number) for number in range(3)] == [4_000] * 3


def test_close_leaves_what_is_prepared_and_gives_up_what_is_open(
    broker: EmbeddedBroker, raw: RawTransactions, feeder: Feeder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (client_producer, producers):
        monkeypatch.setattr(module, "ABORT_TIMEOUT_MS", 60_000)
    (prepared,) = feeder.prepare(1, 1, 2)
    feeder.write(3, 4)
    # before the first record is sent there is nothing to give up
    wait_until(lambda: raw.state(feeder.names[1]) == "Ongoing", "another one is open")
    threads = threading.active_count()
    feeder.writer.close()
    feeder.writer.close()
    wait_until(lambda: threading.active_count() < threads, "the thread that makes spares is gone")
    wait_until(lambda: raw.state(feeder.names[1]) == "CompleteAbort", "what was open is aborted")
    assert raw.state(prepared.name) == "Ongoing"
    assert visible(broker, feeder.topic) == []
    raw.commit(prepared.name)
    assert visible(broker, feeder.topic) == ["v1", "v2"]


def test_an_epoch_without_rows_keeps_the_producer(raw: RawTransactions, feeder: Feeder) -> None:
    wait_until(lambda: raw.state(feeder.names[0]) == "Empty", "a spare is made before there is a row")
    assert feeder.writer.flush(1) == ()
    feeder.writer.committed(1, {})
    assert feeder.writer.flush(2) == ()
    # whether a broker that is slow to answer has registered it once is the client's affair
    spare = feeder.writer._spare
    wait_until(lambda: spare._ready is not None, "the spare is ready")
    registered = raw.describe(feeder.names[0])
    assert registered is not None
    (prepared,) = feeder.prepare(3, 1)
    found = raw.describe(prepared.name)
    assert (prepared.name, prepared.epoch) == (feeder.names[0], 3)
    assert found is not None
    assert found.producer_epoch == registered.producer_epoch, "it is still that one"


def test_what_a_declined_epoch_prepared_rides_along(
    broker: EmbeddedBroker, raw: RawTransactions, feeder: Feeder
) -> None:
    feeder.prepare(1, 1)
    prepared = feeder.prepare(2, 2)
    assert [(item.epoch, item.name) for item in prepared] == [(1, feeder.names[0]), (2, feeder.names[1])]
    assert feeder.writer.flush(3) == prepared, "nothing was written, and nothing is forgotten"
    for item in prepared:
        raw.commit(item.name)
    feeder.writer.committed(3, {})
    assert visible(broker, feeder.topic) == ["v1", "v2"]
    assert feeder.writer.flush(4) == ()


def test_without_a_free_name_the_writer_waits_for_the_commit(
    broker: EmbeddedBroker, raw: RawTransactions, feeder: Feeder
) -> None:
    for epoch in (1, 2, 3):
        prepared = feeder.prepare(epoch, epoch)
    assert [item.name for item in prepared] == list(feeder.names)
    entered, done = threading.Event(), threading.Event()

    def write() -> None:
        entered.set()
        feeder.write(4)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert entered.wait(WAIT_SECONDS)
    assert not done.wait(0.3), "all three names are taken"
    for item in prepared:
        raw.commit(item.name)
    feeder.writer.committed(3, {})
    assert done.wait(WAIT_SECONDS)
    thread.join(WAIT_SECONDS)
    (last,) = feeder.writer.flush(4)
    assert last.name == feeder.names[0]
    raw.commit(last.name)
    assert visible(broker, feeder.topic) == ["v1", "v2", "v3", "v4"]


def test_a_writer_that_waits_is_ended_by_close(feeder: Feeder) -> None:
    for epoch in (1, 2, 3):
        feeder.prepare(epoch, epoch)
    failures: list[Exception] = []

    def write() -> None:
        try:
            feeder.write(4)
        except ExternalError as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    feeder.writer.close()
    thread.join(WAIT_SECONDS)
    assert [str(error) for error in failures] == ["sink 'out' was closed"]


def test_without_a_commit_the_wait_ends_with_the_transactions(
    broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]
) -> None:
    topic = create_topic(broker, unique_topic("exact"), 1)
    for timeout in ("2s", "15s", "60s"):
        feeder = Feeder(broker, topic, transaction_timeout=timeout)
        feeders.append(feeder)
        # as short as this machine is quick enough for
        with suppress(ExternalError):
            for epoch in (5, 6, 7):
                feeder.prepare(epoch, epoch)
            break
    with pytest.raises(ExternalError, match=f"those of epochs 5, 6, 7 were not committed within {timeout}") as raised:
        feeder.write(8)
    assert raised.value.retry
    assert "checkpoint.tolerable_failures" in str(raised.value)


def test_a_tolerated_failure_gives_one_name_more(
    broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]
) -> None:
    feeder = Feeder(broker, create_topic(broker, unique_topic("exact"), 1), tolerable_failures=1)
    feeders.append(feeder)
    for epoch in (1, 2, 3, 4):
        prepared = feeder.prepare(epoch, epoch)
    assert [item.name for item in prepared] == list(feeder.names)
    assert len(feeder.names) == 4


def test_a_successor_is_used_from_the_next_time_on(raw: RawTransactions, feeder: Feeder) -> None:
    (prepared,) = feeder.prepare(1, 1)
    raw.commit(prepared.name)
    after = f"{prepared.name}9"
    feeder.writer.committed(1, {prepared.name: after})
    used = []
    for epoch in (2, 3, 4):
        (prepared,) = feeder.prepare(epoch, epoch)
        used.append(prepared.name)
        raw.commit(prepared.name)
        feeder.writer.committed(epoch, {})
    assert used == [feeder.names[1], feeder.names[2], after]


def test_an_idle_spare_is_registered_anew(
    broker: EmbeddedBroker, raw: RawTransactions, producer_kind: str, feeders: list[Feeder]
) -> None:
    feeder = Feeder(broker, create_topic(broker, unique_topic("exact"), 1))
    feeders.append(feeder)
    feeder.writer.close()
    feeder.writer = TransactionalWriter(feeder.config, feeder.context, renewed_after_s=0.05)

    def renewed() -> bool:
        found = raw.describe(feeder.names[0])
        return found is not None and found.producer_epoch >= 3

    wait_until(renewed, "the spare is registered again and again")
    (prepared,) = feeder.prepare(1, 1)
    raw.commit(prepared.name)
    assert visible(broker, feeder.topic) == ["v1"]


@pytest.mark.parametrize("at", ["write", "flush"])
def test_a_writer_that_was_replaced_is_told(broker: EmbeddedBroker, feeder: Feeder, at: str) -> None:
    """A frozen writer that wakes up: its name belongs to somebody else, and its rows never appear."""
    feeder.write(1)
    if at == "write":
        feeder.writer._open.queue.flush()  # type: ignore[union-attr]
    thief = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": feeder.names[0]})
    thief.init_transactions(WAIT_SECONDS)
    with pytest.raises(ExternalError, match="a newer attempt of this job has taken over") as raised:
        for number in range(1_000):
            feeder.write(number)
            feeder.writer.flush(1)
    assert raised.value.retry
    assert visible(broker, feeder.topic) == []


def test_a_record_that_is_too_large_dooms_its_transaction(
    broker: EmbeddedBroker, raw: RawTransactions, producer_kind: str, feeders: list[Feeder]
) -> None:
    """One row was taken, one was not: flush must not give what would commit half."""
    topic = create_topic(broker, unique_topic("exact"), 1, config={"max.message.bytes": "1000"})
    feeder = Feeder(broker, topic, properties={"compression.type": "none"})
    feeders.append(feeder)
    feeder.write(1)
    rows = pl.DataFrame({"k": ["a"], "n": [1], TS: [1]})
    with pytest.raises(DataError, match=r"max\.message\.bytes"):
        for _ in range(100):
            feeder.writer.write(SinkBatch(rows, pa.array(["x" * 5000], pa.large_string())))
            feeder.writer.flush(1)
    assert visible(broker, topic) == []


def test_a_topic_that_is_not_there(broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]) -> None:
    feeder = Feeder(broker, unique_topic("gone"), properties={"message.timeout.ms": "1500"})
    feeders.append(feeder)
    with pytest.raises(ExternalError, match=r"no transaction could begin|was not delivered"):
        feeder.prepare(1, 1)


def test_a_timeout_that_the_broker_does_not_allow(
    broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]
) -> None:
    feeder = Feeder(broker, create_topic(broker, unique_topic("exact"), 1), transaction_timeout="16m")
    feeders.append(feeder)
    with pytest.raises(UserError, match=r"transaction_timeout.*\n.*transaction\.max\.timeout\.ms"):
        feeder.write(1)
    with pytest.raises(UserError, match=r"transaction\.max\.timeout\.ms"):
        feeder.config.prepare(feeder.context)


def test_settings_that_are_not_valid(broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]) -> None:
    for properties in ({"no.such.setting": "1"}, {"message.timeout.ms": "soon"}):
        feeder = Feeder(broker, "any", properties=properties)
        feeders.append(feeder)
        with pytest.raises(UserError, match="settings are not valid"):
            feeder.write(1)


def test_short_transactions_are_taken_by_the_client(
    broker: EmbeddedBroker, raw: RawTransactions, producer_kind: str, feeders: list[Feeder]
) -> None:
    """The library refuses a socket's or a record's time beyond the transaction's, also where the pipeline chose it."""
    chosen = {"socket.timeout.ms": "60000", "message.timeout.ms": "60000"}
    feeder = Feeder(
        broker, create_topic(broker, unique_topic("exact"), 1), transaction_timeout="50s", properties=chosen
    )
    feeders.append(feeder)
    (prepared,) = feeder.prepare(1, 1)
    found = raw.describe(prepared.name)
    assert found is not None
    assert found.timeout_ms == 50_000
    raw.commit(prepared.name)


def test_a_broker_that_restarts_is_ridden_out(
    own_broker: EmbeddedBroker, producer_kind: str, feeders: list[Feeder]
) -> None:
    """An open and a prepared transaction outlive the broker's death, and closing waits for nobody."""
    broker = own_broker
    feeder = Feeder(broker, create_topic(broker, "exact", 1), properties={"message.timeout.ms": "240000"})
    feeders.append(feeder)
    (prepared,) = feeder.prepare(1, 1)
    feeder.write(2)
    broker.kill()
    late = Feeder(broker, "exact", properties={"message.timeout.ms": "1000"})
    feeders.append(late)
    # the second may be over before the thread that makes spares has tried once
    wait_until(lambda: late.writer._spare._error is not None, "it has found nobody")
    with pytest.raises(ExternalError, match=r"no transaction could begin within 1 s: no Kafka broker answers") as told:
        late.write(1)
    assert told.value.retry
    late.writer.close()
    feeder.write(3)
    broker.start()
    both = feeder.writer.flush(2)
    with raw_transactions(broker) as raw:
        for item in both:
            raw.commit(item.name)
    assert both[0] == prepared
    assert visible(broker, "exact") == ["v1", "v2", "v3"]
    feeder.write(4)
    broker.kill()
    feeder.writer.close()


WRITE_AND_HANG = """
import sys, time
import polars as pl, pyarrow as pa
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig

brokers, topic, job = sys.argv[1:]
config = KafkaSinkConfig.model_validate({"brokers": brokers, "topic": topic, "delivery": "exactly-once"})
writer = config.open_writer(SinkContext(job, "out", 0, 1, schema_of({"n": "int64"}), format="json"))
def write(*numbers):
    writer.write(SinkBatch(pl.DataFrame({"n": numbers}), pa.array([f"v{n}" for n in numbers], pa.large_string())))
write(1, 2, 3)
(prepared,) = writer.flush(1)
write(4)
print(prepared.name, flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_prepared_can_be_committed(broker: EmbeddedBroker, raw: RawTransactions) -> None:
    topic = create_topic(broker, unique_topic("killed"), 1)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_HANG, broker.bootstrap, topic, unique_topic("j")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert raw.state(name) == "Ongoing"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    assert visible(broker, topic) == []
    raw.commit(name)
    assert visible(broker, topic) == ["v1", "v2", "v3"]
