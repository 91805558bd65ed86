"""A publisher into tables: deletes, an answer that is lost, and databases that are not known well."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connect.publisher import Publisher, Share
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP
from headrace.core.errors import ExternalError, InternalError
from headrace.core.types import schema_of
from headrace_connectors.sql import SqlSinkConfig
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.publisher import SqlPublisher
from support.storage.sql_tables import Tables

CONTEXT = SinkContext("j", "out", 0, 1, schema_of({"k": "string not null", "n": "int64"}))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Tables]:
    tables = Tables(f"sqlite:///{tmp_path / 'tables.db'}")
    yield tables
    tables.close()


def opened(database: Tables, rows: int, **fields: object) -> Publisher:
    given = {"url": database.url, "table": "results", "create_table": True} | fields
    config = SqlSinkConfig.model_validate(given)
    config.prepare(CONTEXT)
    publisher = config.open_publisher(CONTEXT, Share(1, rows))
    assert publisher is not None
    return publisher


def batch(*rows: tuple[str, int, bool]) -> SinkBatch:
    return SinkBatch(pl.DataFrame(rows, schema={"k": pl.String, "n": pl.Int64, OP: pl.Boolean}, orient="row"))


def progress(database: Tables) -> list[tuple[object, ...]]:
    return [tuple(row) for row in database.rows("headrace_published", "job, sink, subtask, epoch, rows, share_rows")]


def test_the_last_row_of_a_key_stays(database: Tables) -> None:
    publisher = opened(database, 5, mode="upsert", key="k")
    publisher.write(batch(("a", 1, False), ("b", 2, False), ("a", 3, False)))
    publisher.write(batch(("b", 2, True), ("c", 4, False)))
    publisher.finish()
    publisher.close()
    assert sorted(tuple(row) for row in database.rows("results", "k, n")) == [("a", 3), ("c", 4)]
    assert progress(database) == [("j", "out", 0, 1, 5, 5)]


def test_a_commit_whose_answer_is_lost_is_not_repeated(database: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = opened(database, 2)
    publisher.write(batch(("a", 1, False), ("b", 2, False)))
    assert isinstance(publisher, SqlPublisher)
    dialect = publisher._database.engine.dialect
    real_commit, lost = dialect.do_commit, [True]

    def commit(connection: Any) -> None:
        real_commit(connection)
        if lost:
            lost.clear()
            error = sqlite3.OperationalError("the answer did not come")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    monkeypatch.setattr(dialect, "do_commit", commit)
    publisher.finish()
    publisher.close()
    assert not lost
    assert sorted(tuple(row) for row in database.rows("results", "k, n")) == [("a", 1), ("b", 2)]
    assert progress(database) == [("j", "out", 0, 1, 2, 2)]


def test_who_is_shut_out_hears_it(database: Tables) -> None:
    first = opened(database, 1)
    first.write(batch(("a", 1, False)))
    second = opened(database, 1)
    with pytest.raises(ExternalError, match="a newer publisher has taken over") as raised:
        first.finish()
    assert raised.value.retry
    first.close()
    second.close()
    assert not database.rows("results", "k")


def test_another_share_of_that_epoch_is_refused(database: Tables) -> None:
    opened(database, 1).close()
    with pytest.raises(ExternalError, match="0 of 1 rows of epoch 1 are published, but now that share has 2"):
        opened(database, 2)


def test_other_databases_have_no_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Database:
        raise AssertionError("nothing is opened")

    monkeypatch.setattr("headrace_connectors.sql._open_database", refuse)
    config = SqlSinkConfig.model_validate({"url": "mysql://h/d", "table": "results"})
    assert config.open_publisher(CONTEXT, Share(1, 1)) is None


def test_a_short_share_does_not_count_as_published(database: Tables) -> None:
    publisher = opened(database, 3)
    publisher.write(batch(("a", 1, False), ("b", 2, False)))
    with pytest.raises(InternalError, match="has 3 rows, and its publisher was given 2"):
        publisher.finish()
    publisher.close()
    # the next publisher continues behind the rows that are in the table
    again = opened(database, 3)
    assert again.published == 2
    again.close()
