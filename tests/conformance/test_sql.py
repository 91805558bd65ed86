from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.connect.sink import SinkContext
from headrace.testing.committer_conformance import CommitterConformance
from headrace.testing.sink_conformance import SCHEMA, Rows, SinkConformance, SinkUnderTest
from headrace_connectors.sql import SqlSinkConfig
from support.storage.postgres import Postgres, postgres
from support.storage.sql_tables import Tables

pytestmark = pytest.mark.turns(3)

__all__ = ["postgres"]


class SqlSink:
    delivery = "at-least-once"

    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Tables]:
        tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
        yield tables
        tables.close()

    @pytest.fixture
    def sink(self, database: Tables) -> SinkUnderTest:
        fields = {"url": database.url, "table": "results", "delivery": self.delivery, "create_table": True}
        config = SqlSinkConfig.model_validate(fields)
        context = SinkContext("j", "n", 0, 1, SCHEMA)
        config.prepare(context)
        # heaps and rowids keep the order of insertion as long as nothing is deleted
        return SinkUnderTest(
            config,
            context,
            visible=lambda: self.read(database),
            broken=config.model_copy(update={"table": "nowhere", "create_table": False}),
        )

    def read(self, database: Tables) -> Rows:
        names = SCHEMA.names
        return [dict(zip(names, row, strict=True)) for row in database.rows("results", ", ".join(names))]


class OnPostgres(SqlSink):
    @pytest.fixture
    def database(self, postgres: Postgres) -> Iterator[Tables]:
        tables = Tables(postgres.url(postgres.create_database()))
        yield tables
        tables.close()


class TestSqlite(SqlSink, SinkConformance):
    pass


class TestSqliteCommits(SqlSink, SinkConformance, CommitterConformance):
    delivery = "exactly-once"


class TestPostgres(OnPostgres, SinkConformance):
    pass


class TestPostgresCommits(OnPostgres, SinkConformance, CommitterConformance):
    delivery = "exactly-once"
