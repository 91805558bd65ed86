"""What a publisher of shares leaves on a real broker when it is killed or shut out, and what its records are."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP
from headrace.core.errors import ExternalError
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.clients.transaction_names import parsed
from headrace_connectors.kafka.publishing.marker import MarkerGroup, marked, share_name
from headrace_connectors.kafka.publishing.publisher import KafkaPublisher
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, running_broker, unique_topic
from support.kafka.raw_transactions import RawTransactions, raw_transactions
from support.processes.running import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]

SCHEMA = schema_of({"k": "string", "n": "int64"})
PUBLISH_AND_HANG = """
import sys, time
import polars as pl, pyarrow as pa
from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.types import schema_of
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.publishing.publisher import KafkaPublisher

brokers, topic, job, written = *sys.argv[1:4], int(sys.argv[4])
config = KafkaSinkConfig.model_validate({"brokers": brokers, "topic": topic})
context = SinkContext(job, "out", 0, 1, schema_of({"k": "string", "n": "int64"}), format="json")
publisher = KafkaPublisher(config, context, Share(1, 10), transaction_rows_max=4)
publisher._open_max_s = 600
rows = pl.DataFrame({"k": ["a"] * written, "n": range(written)})
publisher.write(SinkBatch(rows, pa.array([f"v{n}" for n in range(written)], pa.large_string())))
# what is open has reached the broker
publisher._producer.flush()
print(publisher.published, flush=True)
time.sleep(600)
"""


@pytest.fixture
def raw(broker: EmbeddedBroker) -> Iterator[RawTransactions]:
    with raw_transactions(broker) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Job:
    """A job of its own that publishes to a topic of its own, in transactions of four rows."""

    broker: EmbeddedBroker
    topic: str
    context: SinkContext

    def publisher(self, rows: int = 10, *, epoch: int = 1, **fields: object) -> KafkaPublisher:
        return KafkaPublisher(self.config(**fields), self.context, Share(epoch, rows), transaction_rows_max=4)

    def config(self, **fields: object) -> KafkaSinkConfig:
        return KafkaSinkConfig.model_validate({"brokers": self.broker.bootstrap, "topic": self.topic} | fields)

    def visible(self) -> list[str]:
        return [(record.value or b"").decode() for record in consume_all(self.broker, self.topic)]


@pytest.fixture(autouse=True)
def _full_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is committed because this machine stood still while it was open."""
    monkeypatch.setattr("headrace_connectors.kafka.publishing.publisher._OPEN_MAX_S", 600.0)
    monkeypatch.setattr("headrace_connectors.kafka.publishing.publisher._OPEN_PART_MAX", 1.0)


@pytest.fixture
def job(broker: EmbeddedBroker) -> Job:
    topic = create_topic(broker, unique_topic("shares"), 1)
    return Job(broker, topic, SinkContext(unique_topic("replay-j"), "out", 0, 1, SCHEMA, format="json"))


def batch(*numbers: int) -> SinkBatch:
    rows = pl.DataFrame({"k": [f"k{n % 2}" for n in numbers], "n": numbers})
    return SinkBatch(rows, pa.array([f"v{n}" for n in numbers], pa.large_string()))


def values(end: int) -> list[str]:
    return [f"v{n}" for n in range(end)]


@pytest.mark.parametrize(("written", "published"), [pytest.param(2, 0, marks=pytest.mark.full), (7, 4)])
def test_a_killed_process_is_followed_exactly(job: Job, raw: RawTransactions, written: int, published: int) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PUBLISH_AND_HANG, job.broker.bootstrap, job.topic, job.context.job, str(written)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == published
        assert raw.state(share_name(job.context)) == "Ongoing"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
    following = job.publisher()
    assert following.published == published
    assert job.visible() == values(published), "nothing of the open transaction is left to hold readers back"
    following.write(batch(*range(published, 10)))
    following.finish()
    following.close()
    assert job.visible() == values(10)


def test_a_marker_that_is_not_settled_is_waited_for(job: Job, raw: RawTransactions) -> None:
    dying = job.publisher()
    dying.write(batch(0, 1))
    dying._producer.flush()
    marker = marked(job.topic, ShareMarker(1, 2, 10))
    dying._producer._producer.send_offsets_to_transaction(marker, dying._group, WAIT_SECONDS)
    # as a kill leaves it: nothing is aborted
    dying._producer.drop()
    assert raw.state(share_name(job.context)) == "Ongoing"
    group = MarkerGroup(job.config(), job.context)
    with pytest.raises(ExternalError, match="did not return within 1 s") as raised:
        group.read(1.0)
    assert raised.value.retry
    following = job.publisher()
    assert following.published == 0
    assert group.read(WAIT_SECONDS) is None
    group.close()
    following.write(batch(*range(10)))
    following.finish()
    following.close()
    assert job.visible() == values(10)


@pytest.mark.full
def test_a_broker_that_restarts_costs_no_row_and_repeats_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may get stuck for good in that: then the publisher fails, and the next one goes on."""
    monkeypatch.setattr("headrace_connectors.kafka.publishing.publisher.MARK_PATIENCE_S", 2.0)
    with running_broker(tmp_path / "kafka") as broker:
        topic = create_topic(broker, unique_topic("restarted"), 2)
        job = Job(broker, topic, SinkContext("replay-j", "out", 0, 1, SCHEMA, format="json"))
        first = job.publisher(20)
        first.write(batch(*range(4)))
        # a lone broker that dies with markers still to be written, also that of the group, may forget them
        with raw_transactions(broker) as raw:
            wait_until(lambda: raw.state(share_name(job.context)) == "CompleteCommit", "the first one is settled")
        broker.kill()
        starting = threading.Thread(target=broker.start)
        starting.start()
        try:
            first.write(batch(*range(4, 20)))
            first.finish()
        except ExternalError as error:
            assert error.retry
        first.close()
        starting.join()
        following = job.publisher(20)
        assert following.published >= 4
        following.write(batch(*range(following.published, 20)))
        following.finish()
        following.close()
        assert sorted(job.visible()) == sorted(values(20))


def test_a_transaction_is_committed_when_it_is_full(job: Job) -> None:
    publisher = job.publisher()
    for end, published in ((3, 0), (4, 4), (5, 4), (10, 8)):
        publisher.write(batch(*range(publisher._published + publisher._open_rows, end)))
        assert publisher.published == published
    assert job.visible() == values(8)
    publisher.finish()
    publisher.close()
    assert job.visible() == values(10)


def test_who_is_shut_out_hears_it(job: Job) -> None:
    first = job.publisher()
    first.write(batch(0, 1, 2))
    second = job.publisher()
    with pytest.raises(ExternalError, match="ended the transaction") as raised:
        first.write(batch(*range(3, 10)))
    assert raised.value.retry
    first.close()
    second.write(batch(*range(10)))
    second.finish()
    second.close()
    assert job.visible() == values(10)


def test_deletes_are_tombstones_by_key(job: Job) -> None:
    publisher = job.publisher(3, key="k", mode="upsert", headers={"n": "n"})
    given = batch(0, 1, 2)
    publisher.write(SinkBatch(given.rows.with_columns(pl.Series(OP, [False, False, True])), given.messages))
    publisher.finish()
    publisher.close()
    found = consume_all(job.broker, job.topic)
    assert [(record.key, record.value) for record in found] == [(b"k0", b"v0"), (b"k1", b"v1"), (b"k0", None)]
    assert [record.headers for record in found] == [(("n", str(n).encode()),) for n in range(3)]


def test_committers_leave_publishers_alone(job: Job, raw: RawTransactions) -> None:
    publisher = job.publisher()
    publisher.write(batch(0, 1))
    publisher._producer.flush()
    name = share_name(job.context)
    assert parsed(name) is None
    committer = job.config(delivery="exactly-once").open_committer(job.context)
    assert committer is not None
    assert not committer.sweep(9)
    assert not committer.open_transactions()
    committer.close()
    assert raw.state(name) == "Ongoing"
    publisher.write(batch(*range(2, 10)))
    publisher.finish()
    publisher.close()
    assert job.visible() == values(10)


def test_another_share_of_that_epoch_is_refused(job: Job) -> None:
    publisher = job.publisher()
    publisher.write(batch(*range(10)))
    publisher.finish()
    publisher.close()
    with pytest.raises(ExternalError, match="10 of 10 rows of epoch 1 are published, but now that share has 12"):
        job.publisher(12)


def test_an_offset_that_is_not_ours_is_refused(job: Job) -> None:
    settings = {"bootstrap.servers": job.broker.bootstrap, "group.id": share_name(job.context)}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(job.topic, 0, 5)], asynchronous=False)
    consumer.close()
    with pytest.raises(ExternalError, match="headrace did not write"):
        job.publisher()
