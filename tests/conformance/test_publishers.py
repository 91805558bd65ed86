from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.connect.publisher import Share
from headrace.connect.sink import SinkContext
from headrace.testing.publisher_conformance import PublisherConformance
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkUnderTest
from headrace_connectors.files import FilesSinkConfig
from headrace_connectors.kafka import KafkaSinkConfig
from headrace_connectors.kafka.publishing.publisher import KafkaPublisher
from headrace_connectors.sql import SqlSinkConfig
from headrace_dev.broker import EmbeddedBroker
from support.kafka.broker import consume_all, create_topic, unique_topic
from support.storage.part_files import read_parts
from support.storage.postgres import Postgres, postgres
from support.storage.sql_tables import Tables

pytestmark = pytest.mark.turns(3)

__all__ = ["postgres"]


class SmallTransactions(KafkaSinkConfig):
    """A sink whose publishers commit every few rows: whoever dies leaves some of them visible."""

    rows_max: ClassVar[int] = 4

    def open_publisher(self, context: SinkContext, share: Share) -> KafkaPublisher:
        return KafkaPublisher(self, context, share, transaction_rows_max=self.rows_max)


@dataclass(frozen=True, slots=True)
class _Topic:
    broker: EmbeddedBroker
    name: str

    def sink(self, kind: type[KafkaSinkConfig], **fields: object) -> SinkUnderTest:
        config = kind.model_validate({"brokers": self.broker.bootstrap, "topic": self.name, "key": ["key"]} | fields)
        # names of transactions and groups are the broker's: each test is a job of its own
        context = SinkContext(self.name, "n", 0, 1, SCHEMA, format="json")
        return SinkUnderTest(
            config,
            context,
            visible=lambda: [json.loads(record.value or b"") for record in consume_all(self.broker, self.name)],
        )


@pytest.fixture
def topic(broker: EmbeddedBroker) -> _Topic:
    return _Topic(broker, create_topic(broker, unique_topic("published"), 3))


@pytest.mark.full
@pytest.mark.broker
class TestKafka(PublisherConformance):
    """A share in one transaction; the commit tier has small ones."""

    @pytest.fixture
    def sink(self, topic: _Topic) -> SinkUnderTest:
        return topic.sink(KafkaSinkConfig, delivery="exactly-once")


@pytest.mark.broker
class TestKafkaInSmallTransactions(PublisherConformance):
    @pytest.fixture
    def sink(self, topic: _Topic) -> SinkUnderTest:
        return topic.sink(SmallTransactions, headers={"n": "number"}, timestamp="event")


class FilesPublish(PublisherConformance):
    format_name: ClassVar[str]

    @pytest.fixture
    def sink(self, tmp_path: Path) -> SinkUnderTest:
        folder = tmp_path / "out"
        context = SinkContext("j", "n", 0, 1, SCHEMA, format=self.format_name)
        return SinkUnderTest(FilesSinkConfig(path=str(folder)), context, visible=lambda: read_parts(folder))


class TestJsonFiles(FilesPublish):
    format_name = "json"


class TestParquetFiles(FilesPublish):
    format_name = "parquet"


class SqlPublish(PublisherConformance):
    fields: ClassVar[dict[str, object]] = {}

    @pytest.fixture(autouse=True)
    def _small_transactions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever dies leaves some of its rows visible."""
        monkeypatch.setattr("headrace_connectors.sql.writing.row_buffer.ROWS_MAX", 4)

    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Tables]:
        tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
        yield tables
        tables.close()

    @pytest.fixture
    def sink(self, database: Tables) -> SinkUnderTest:
        given = {"url": database.url, "table": "results", "create_table": True} | self.fields
        config = SqlSinkConfig.model_validate(given)
        context = SinkContext("j", "n", 0, 1, SCHEMA)
        config.prepare(context)
        return SinkUnderTest(config, context, visible=lambda: self.read(database))

    def read(self, database: Tables) -> Rows:
        names = SCHEMA.names
        return [dict(zip(names, row, strict=True)) for row in database.rows("results", ", ".join(names))]


class SqlUpserts(SqlPublish):
    fields: ClassVar[dict[str, object]] = {"mode": "upsert", "key": ["number"]}


class OnPostgres(SqlPublish):
    @pytest.fixture
    def database(self, postgres: Postgres) -> Iterator[Tables]:
        tables = Tables(postgres.url(postgres.create_database()))
        yield tables
        tables.close()


class TestSqlite(SqlPublish):
    pass


class TestSqliteUpserts(SqlUpserts):
    pass


class TestPostgres(OnPostgres):
    fields: ClassVar[dict[str, object]] = {"delivery": "exactly-once"}


class TestPostgresUpserts(OnPostgres, SqlUpserts):
    pass
