"""The archive sink, and the Kafka source where it reads from an archive: all of it, a part, nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from headrace.connect.sink import Committable, SinkBatch, SinkContext, Writer
from headrace.connect.source import SourceContext
from headrace.core.types import schema_of
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace.testing.source_conformance import SourceConformance, SourceUnderTest
from headrace_connectors.archive import ArchiveSinkConfig
from headrace_connectors.kafka import KafkaSourceConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import create_topic, produce, unique_topic
from support.storage.archive import SINK_SCHEMA, archive_topics, delete_records

pytestmark = pytest.mark.turns(3)


class PackedSinkConfig(ArchiveSinkConfig):
    """Takes the suite's rows as records of one partition, `number` being the offset."""

    def open_writer(self, context: SinkContext) -> Writer:
        return _Packing(super().open_writer(context))


class _Packing:
    def __init__(self, inner: Writer) -> None:
        self._inner = inner

    def write(self, batch: SinkBatch) -> None:
        rows = batch.rows
        packed = rows.select(
            value=rows.select(SCHEMA.names)
            .select(pl.struct(pl.all()).struct.json_encode())
            .to_series()
            .cast(pl.Binary),
            topic=pl.lit("t"),
            partition=pl.lit(0, pl.Int32),
            offset="number",
            timestamp=pl.lit(0).cast(pl.Datetime("us", "UTC")),
            key=pl.col("key").cast(pl.Binary),
            headers=pl.lit([], SINK_SCHEMA.polars()["headers"]),
        )
        self._inner.write(SinkBatch(packed))

    def flush(self, epoch: int) -> Sequence[Committable]:
        return self._inner.flush(epoch)

    def close(self) -> None:
        self._inner.close()


class ArchiveSink(SinkConformance):
    limits: ClassVar[dict[str, int]] = {}

    @pytest.fixture
    def sink(self, tmp_path: Path) -> SinkUnderTest:
        def visible() -> Rows:
            files = sorted((tmp_path / "kept" / "t" / "00000").glob("*.parquet"))
            frames = [pl.read_parquet(file) for file in files]
            values = [value for frame in frames for value in frame.sort("offset")["value"].cast(pl.String)]
            return [pl.Series([value]).str.json_decode(pl.Struct(SCHEMA.polars())).to_list()[0] for value in values]

        (tmp_path / "file").write_text("in the way")
        return SinkUnderTest(
            PackedSinkConfig(path=str(tmp_path / "kept"), **self.limits),
            SinkContext("j", "n", 0, 1, SCHEMA),
            visible=visible,
            broken=PackedSinkConfig(path=str(tmp_path / "file" / "below")),
        )


class TestSink(ArchiveSink):
    pass


class TestSinkWithSmallFiles(ArchiveSink):
    limits: ClassVar[dict[str, int]] = {"max_rows": 3}


class TestSinkWithLittleMemory(ArchiveSink):
    limits: ClassVar[dict[str, int]] = {"max_bytes": 1}


def _archived(
    broker: EmbeddedBroker, archive: Path, *, kept: Mapping[int, int], expired: Mapping[int, int]
) -> SourceUnderTest:
    """90 records in three partitions; so many of each are archived, so many has Kafka deleted since."""
    topic = create_topic(broker, unique_topic("archived"), 3)
    produce(broker, topic, [f"{n}" if n % 10 else None for n in range(90)], partition=[n % 3 for n in range(90)])
    given: dict[str, Any] = {"brokers": broker.bootstrap, "topic": topic}
    if kept:
        archive_topics(KafkaSourceConfig.model_validate(given | {"stop": kept}), str(archive))
    delete_records(broker, topic, expired)
    config = KafkaSourceConfig.model_validate(given | {"stop": "latest", "archive": str(archive)})
    context = SourceContext("p", "n", schema_of({"v": "binary"}), "raw")
    return SourceUnderTest(config, context, splits=3, rows=90)


@pytest.fixture(scope="module")
def all_archived(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> SourceUnderTest:
    whole = {0: 30, 1: 30, 2: 30}
    return _archived(broker, tmp_path_factory.mktemp("all"), kept=whole, expired=whole)


@pytest.fixture(scope="module")
def partly_archived(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> SourceUnderTest:
    return _archived(broker, tmp_path_factory.mktemp("part"), kept={0: 20, 1: 30, 2: 0}, expired={0: 11, 1: 30})


@pytest.fixture(scope="module")
def nothing_archived(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> SourceUnderTest:
    return _archived(broker, tmp_path_factory.mktemp("none"), kept={}, expired={})


@pytest.mark.broker
class TestAllArchivedAndExpired(SourceConformance):
    @pytest.fixture
    def source(self, all_archived: SourceUnderTest) -> SourceUnderTest:
        return all_archived


@pytest.mark.broker
class TestArchivedThenKafka(SourceConformance):
    @pytest.fixture
    def source(self, partly_archived: SourceUnderTest) -> SourceUnderTest:
        return partly_archived


@pytest.mark.broker
class TestNothingArchivedYet(SourceConformance):
    @pytest.fixture
    def source(self, nothing_archived: SourceUnderTest) -> SourceUnderTest:
        return nothing_archived
