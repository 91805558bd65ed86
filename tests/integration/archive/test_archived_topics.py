"""What an archive gives back is what Kafka had; what is neither there nor in Kafka is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.connect.source import MessageBatch, Split, SplitId
from headrace.core.errors import UserError
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.ranges import Range, covered
from headrace.formats.archive.schema import footer_of
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, delete_topic, produce, unique_topic
from support.kafka.log_ends import wait_settled
from support.kafka.raw_transactions import transactional
from support.processes.running import WAIT_SECONDS, wait_until
from support.storage.archive import EVERYTHING, archive_topics, delete_records, read_records

pytestmark = [pytest.mark.broker, pytest.mark.turns(2)]

BEGIN_MS = 1_700_000_000_000


def config_of(broker: EmbeddedBroker, topic: str, **fields: Any) -> KafkaSourceConfig:
    given = {"brokers": broker.bootstrap, "topic": topic, "stop": "latest"}
    return KafkaSourceConfig.model_validate(given | fields)


def splits_of(config: KafkaSourceConfig) -> list[Split]:
    return list(config.open_enumerator(EVERYTHING).discover())


def kept(path: Path, topic: str, partition: int = 0) -> list[Range]:
    return covered(ArchiveFolder(str(path)).files(topic, partition))


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    """20 records in one partition: keys, a tombstone, an empty value, headers, a second between each two."""
    name = create_topic(broker, unique_topic("kept"), 1)
    numbers = range(20)
    headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", None), ("x", b"\xff")]
    produce(
        broker,
        name,
        [None if n == 7 else b"" if n == 8 else f"{n}".encode() for n in numbers],
        keys=[None if n % 4 == 0 else f"k{n}" for n in numbers],
        timestamps=[BEGIN_MS + n * 1000 for n in numbers],
        headers=[headers[: n % 4] for n in numbers],
    )
    return name


def test_all_of_a_record_comes_back(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    before = read_records(config_of(broker, topic))
    archive_topics(config_of(broker, topic), str(tmp_path))
    delete_records(broker, topic, {0: 13})
    assert read_records(config_of(broker, topic, archive=str(tmp_path))) == before
    delete_records(broker, topic, {0: 20})
    assert read_records(config_of(broker, topic, archive=str(tmp_path))) == before
    assert len(before) == 20
    assert [row[5] for row in before[7:9]] == [None, b""]


def test_any_reader_of_parquet_reads_the_files(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    archive_topics(config_of(broker, topic), str(tmp_path))
    rows = pl.read_parquet(tmp_path / topic / "**" / "*.parquet").sort("offset")
    assert rows["offset"].to_list() == list(range(20))
    assert rows["timestamp"].to_list() == [BEGIN_MS + n * 1000 for n in range(20)]
    first = min((tmp_path / topic / "00000").iterdir())
    footer = footer_of(pq.read_metadata(first).metadata, str(first))
    assert (footer.topic, footer.partition, footer.first, footer.next, footer.rows) == (topic, 0, 0, 7, 7)
    assert (footer.min_timestamp, footer.max_timestamp, footer.job) == (BEGIN_MS, BEGIN_MS + 6000, "job")


def test_starts_that_only_the_archive_has(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    archive_topics(config_of(broker, topic), str(tmp_path))
    delete_records(broker, topic, {0: 15})

    def offsets(**fields: Any) -> list[int]:
        return [row[2] for row in read_records(config_of(broker, topic, archive=str(tmp_path), **fields))]

    assert offsets(start={"0": "4"}) == list(range(4, 20))
    assert offsets(start={"0": "4"}, stop={"0": "11"}) == list(range(4, 11))
    assert offsets(start="2023-11-14T22:13:29.5Z") == list(range(10, 20))
    assert offsets(start="2023-11-14T22:13:29.5Z", stop="2023-11-14T22:13:32Z") == [10, 11]
    assert offsets(start="2023-11-14T22:13:37Z") == [17, 18, 19]
    assert offsets(start="committed") == list(range(20))
    assert offsets(start="latest") == []


def test_a_hole_is_refused_by_name(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    archive_topics(config_of(broker, topic, stop={"0": "5"}), str(tmp_path))
    archive_topics(config_of(broker, topic, start={"0": "9"}, stop={"0": "12"}), str(tmp_path), job="other")
    delete_records(broker, topic, {0: 11})
    with pytest.raises(
        UserError, match=rf"{topic} partition 0: offsets 5 to 8 are neither in Kafka.*begins at 11"
    ) as told:
        splits_of(config_of(broker, topic, archive=str(tmp_path)))
    assert "start at 9 or later" in str(told.value)
    assert [row[2] for row in read_records(config_of(broker, topic, start={"0": "9"}, archive=str(tmp_path)))] == list(
        range(9, 20)
    )
    # a part before the hole is whole
    assert len(read_records(config_of(broker, topic, stop={"0": "5"}, archive=str(tmp_path)))) == 5


def test_a_restored_position_is_looked_for_too(
    broker: EmbeddedBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a broker that does not answer soon is not waited for: Kafka's reader would tell it later
    monkeypatch.setattr("headrace_connectors.kafka.source.archived_reader.BOUNDS_TIMEOUT_S", WAIT_SECONDS)
    config = config_of(broker, topic, archive=str(tmp_path))
    archive_topics(config_of(broker, topic, stop={"0": "5"}), str(tmp_path))
    delete_records(broker, topic, {0: 11})
    reader = config.open_reader(EVERYTHING)
    with pytest.raises(UserError, match="offsets 6 to 10 are neither in Kafka"):
        reader.assign([Split(SplitId(topic, 0), 6, 20)])
    reader.close()
    taken_on = config.open_enumerator(EVERYTHING)
    taken_on.restore([Split(SplitId(topic, 0), 0, 3)], foreign=True)  # type: ignore[attr-defined]
    (split,) = taken_on.discover()
    assert (split.start, split.stop) == (0, 20), "how far it has read is the reader's to know"


def test_a_topic_made_anew_is_refused(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    archive_topics(config_of(broker, topic), str(tmp_path))
    other = create_topic(broker, unique_topic("anew"), 1)
    produce(broker, other, ["x"])
    (tmp_path / topic).rename(tmp_path / other)
    with pytest.raises(UserError, match="not the log that was archived"):
        splits_of(config_of(broker, other, archive=str(tmp_path)))


@pytest.mark.parametrize("same", ["values", "nothing"])
def test_a_topic_made_anew_with_as_many_records_is_refused(
    broker: EmbeddedBroker, topic: str, tmp_path: Path, same: str
) -> None:
    """Loaded again from the same file, its records have other times at least."""
    archive_topics(config_of(broker, topic), str(tmp_path))
    rows = read_records(config_of(broker, topic))
    delete_topic(broker, topic)
    create_topic(broker, topic, 1)
    for row in rows:
        key, value = (row[4], row[5]) if same == "values" else (None, b"x")
        produce(broker, topic, [value], keys=[key])
    produce(broker, topic, ["one more"])
    for start in ("earliest", "archived"):
        with pytest.raises(UserError, match=r"at offset 19 is another one .* not the log that was archived"):
            splits_of(config_of(broker, topic, start=start, archive=str(tmp_path)))


def write_transactions(broker: EmbeddedBroker, producer: Producer, topic: str, numbers: range) -> None:
    """A record each, and a control record after it; every fifth transaction is aborted."""
    for number in numbers:
        producer.begin_transaction()
        producer.produce(topic, f"{number}", partition=0)
        if number % 5 == 4:
            producer.flush(WAIT_SECONDS)
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)
    wait_settled(broker.bootstrap, topic)


def test_transactions_leave_no_hole(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Archived by one job after the other, each from where the archive ended, with control records and aborted ones at
    every end: as long as the log goes on, nothing is missing."""
    topic = create_topic(broker, unique_topic("txns"), 1)
    producer = transactional(broker)
    archive = str(tmp_path)
    for day in range(3):
        write_transactions(broker, producer, topic, range(day * 10, day * 10 + 10))
        up_to_date = config_of(broker, topic, start="archived", archive=archive)
        archive_topics(up_to_date, archive, job=f"day-{day}", flush_rows=3)
    before = read_records(config_of(broker, topic))
    assert kept(tmp_path, topic) == [Range(0, before[-1][2] + 1)]
    assert read_records(config_of(broker, topic, archive=archive)) == before
    delete_records(broker, topic, {0: 43})
    assert read_records(config_of(broker, topic, archive=archive)) == before
    # what ended the log is neither a record nor archived: once it is gone, nobody can tell that nothing was there
    delete_records(broker, topic, {0: 60})
    with pytest.raises(UserError, match=f"offsets {before[-1][2] + 1} to 59 are neither in Kafka"):
        splits_of(config_of(broker, topic, archive=archive))


def compact(broker: EmbeddedBroker, topic: str) -> None:
    """Has the broker begin to compact the topic, whatever it holds already."""
    policy = {"cleanup.policy": "compact,delete", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in policy.items()]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([wanted], request_timeout=WAIT_SECONDS).values():
        answer.result()


def archived_at_rest(config: KafkaSourceConfig, parent: Path) -> tuple[Path, list[tuple[Any, ...]]]:
    """An archive of a log that compaction left alone meanwhile, and what the log had.

    The cleaner goes on by itself for a while after the last record. It only takes away: a log that is the same before
    and after was the same all along.
    """
    for attempt in range(100):
        before = read_records(config)
        archive = parent / f"late-{attempt}"
        archive_topics(config, str(archive), flush_rows=2)
        if read_records(config) == before:
            return archive, before
    raise AssertionError("the log never came to rest")


def test_a_compacted_topic(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """What compaction has removed before it was archived is a gap in a file's range, not a hole; what it removes
    afterwards the archive still has."""
    topic = create_topic(broker, unique_topic("compacted"), 1)
    produce(broker, topic, [f"{n}" for n in range(12)], keys=["a", "b", "c"] * 4)
    early = tmp_path / "early"
    archive_topics(config_of(broker, topic), str(early), flush_rows=5)
    whole = read_records(config_of(broker, topic))
    compact(broker, topic)

    def compacted() -> bool:
        # a segment is closed by the record that comes when it is old
        produce(broker, topic, ["x"], keys=["x"])
        return len(read_records(config_of(broker, topic, stop={"0": "12"}))) < 12

    wait_until(compacted, "the log is compacted")
    config = config_of(broker, topic)
    late, left = archived_at_rest(config, tmp_path)
    end = left[-1][2]
    delete_records(broker, topic, {0: end})
    assert kept(late, topic) == [Range(left[0][2], end + 1)]
    assert read_records(config_of(broker, topic, archive=str(late))) == left
    assert read_records(config_of(broker, topic, archive=str(early), stop={"0": "12"})) == whole


def test_an_archive_that_grows_is_followed(
    broker: EmbeddedBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka deletes what a reader that is still in the archive has not read: it was archived in the meantime."""
    # how far the log goes is not asked for long: a broker that is busy would leave the lag unknown
    monkeypatch.setattr("headrace_connectors.kafka.source.archived_reader.LOG_END_TIMEOUT_S", WAIT_SECONDS)
    archive_topics(config_of(broker, topic, stop={"0": "5"}), str(tmp_path))
    config = config_of(broker, topic, archive=str(tmp_path))
    before = read_records(config)
    splits = splits_of(config)
    reader = config.open_reader(EVERYTHING)
    reader.assign(splits)
    polled = reader.poll(20)
    assert isinstance(polled.batch, MessageBatch)
    assert polled.batch.positions.tolist() == list(range(5))
    assert polled.lag == {splits[0].id: 15}
    archive_topics(config_of(broker, topic, start={"0": "4"}), str(tmp_path), job="other")
    delete_records(broker, topic, {0: 20})
    positions: list[int] = []
    finished = False
    while not finished:
        polled = reader.poll(20)
        finished = bool(polled.finished)
        positions += [] if polled.batch is None else polled.batch.positions.tolist()
    reader.close()
    assert positions == [row[2] for row in before[5:]]


def test_a_broken_file_is_named(broker: EmbeddedBroker, topic: str, tmp_path: Path) -> None:
    archive_topics(config_of(broker, topic), str(tmp_path))
    delete_records(broker, topic, {0: 20})
    first = min((tmp_path / topic / "00000").iterdir())
    first.write_bytes(first.read_bytes()[:-9])
    with pytest.raises(UserError, match=first.name):
        read_records(config_of(broker, topic, archive=str(tmp_path)))
