"""A database beside the sink under test: statements and rows as anybody else would run and see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import sqlalchemy as sa

from headrace.connect.row_check import Refuse
from headrace.connect.sink import CheckpointTerms, Committable, Committer, SinkBatch, SinkContext, Writer
from headrace.core.batch import OP
from headrace.core.types import Schema
from headrace_connectors.sql import SqlSinkConfig

TERMS = CheckpointTerms(
    interval_ms=10_000, timeout_ms=60_000, aligned=True, tolerable_failures=0, restart_delay_ms=1_000
)


class Tables:
    """One database by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        named = sa.make_url(url)
        if named.get_backend_name() == "postgresql":
            named = named.set(drivername="postgresql+psycopg")
        self._engine = sa.create_engine(named, poolclass=sa.NullPool)

    @property
    def dialect(self) -> str:
        return self._engine.dialect.name

    def run(self, *statements: str) -> None:
        with self._engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(f"SELECT {columns} FROM {table}")]

    def count(self, table: str) -> int:
        return int(self.rows(table, "count(*)")[0][0])

    def close(self) -> None:
        self._engine.dispose()

    def sink(self, schema: Schema, table: str = "results", **fields: Any) -> Sink:
        """A sink of this database, its tables prepared."""
        fields = {"create_table": True} | fields
        return Sink(SqlSinkConfig(url=self.url, table=table, **fields), schema).prepared()


class Sink:
    """A sink as an engine would drive it."""

    def __init__(self, config: SqlSinkConfig, schema: Schema, job: str = "job-1", node: str = "out") -> None:
        self.config, self.schema, self.job, self.node = config, schema, job, node

    def context(self, attempt: int = 1, subtask: int = 0, parallelism: int = 1) -> SinkContext:
        return SinkContext(self.job, self.node, subtask, parallelism, self.schema, attempt=attempt, checkpoint=TERMS)

    def prepared(self) -> Sink:
        self.config.prepare(self.context())
        return self

    def writer(self, attempt: int = 1, subtask: int = 0, refuse: Refuse | None = None) -> Writer:
        return self.config.open_writer(replace(self.context(attempt, subtask, subtask + 1), refuse=refuse))

    def committer(self, attempt: int = 1) -> Committer:
        committer = self.config.open_committer(self.context(attempt))
        assert committer is not None
        return committer

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Describes and commits, by a committer of its own."""
        committer = self.committer()
        try:
            return committer.commit(committer.describe(committables))
        finally:
            committer.close()

    def batch(self, rows: Sequence[tuple[Any, ...]], deletes: Sequence[bool] | None = None) -> SinkBatch:
        frame = pl.DataFrame(rows, schema=self.schema.polars(), orient="row")
        if deletes is not None:
            frame = frame.with_columns(pl.Series(OP, deletes, dtype=pl.Boolean))
        return SinkBatch(frame)
