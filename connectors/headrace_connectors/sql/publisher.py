"""Publishes a share of staged rows into a table, exactly once. It stores rows as the direct writer does, in
transactions of many rows that also record the progress.

    headrace_published   job, sink, subtask | epoch, rows, share_rows: visible rows | owner: the newest publisher

This table beside the user's has one row per subtask of each sink. A publisher that opens a share becomes its owner. A
transaction that advances the row names its owner and the previous progress. So a superseded owner changes nothing: its
transaction is rolled back.
"""

from __future__ import annotations

import uuid

import polars as pl
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.failures import is_duplicate, is_transient
from headrace_connectors.sql.tables.target import Target
from headrace_connectors.sql.writing.row_buffer import with_keys
from headrace_connectors.sql.writing.writers import DirectWriter

PUBLISHED_TABLE = "headrace_published"


class SqlPublisher(DirectWriter):
    """`connect.publisher.Publisher` for tables: a direct writer whose transactions record the share's progress."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, share: Share, database: Database) -> None:
        super().__init__(config, context, database)
        self._share = share
        self._progress = ShareProgress(config.target, context, share, owner=uuid.uuid4().hex)
        try:
            self._published = self._progress.take_over(database)
        except BaseException:
            self.close()
            raise

    @property
    def published(self) -> int:
        """Rows of the share that are in the table."""
        return self._published

    def finish(self) -> None:
        """Stores the buffered rows."""
        self._store()
        self._share.require_whole(self._published)

    def _store(self) -> None:
        rows = self._buffer.taken()
        if not rows.height:
            return
        if self._key is not None:
            rows = with_keys(self._context, rows, self._key, dialect=self._dialect)
        self._database.run(lambda connection, number: self._put(connection, rows, again=number > 0))
        self._published += rows.height

    def _put(self, connection: sa.Connection, rows: pl.DataFrame, *, again: bool) -> None:
        after = self._published + rows.height
        if again and self._progress.is_at(connection, after):
            # the previous try was committed, and its answer was lost
            return
        self._table.put(connection, rows)
        self._progress.advance(connection, self._published, after)


class ShareProgress:
    """The row of one share's subtask. `owner`: unique id of this publisher."""

    def __init__(self, target: Target, context: SinkContext, share: Share, *, owner: str) -> None:
        self._table = _made_table(target)
        self._share, self._owner = share, owner
        self._whose = {"job": context.job, "sink": context.node, "subtask": context.subtask}
        columns = self._table.c
        self._mine = sa.and_(*(columns[name] == value for name, value in self._whose.items()))

    def take_over(self, database: Database) -> int:
        """Becomes the owner; returns the number of visible rows of the share. Creates the table if necessary.

        If a newer epoch is published already, its owner stays. Raises HeadraceError.
        """
        # two publishers may create the table, or the row, at once: the second one retries
        return database.run(
            lambda connection, _: self._take_over(connection),
            again=lambda error: is_transient(error) or is_duplicate(error),
        )

    def _take_over(self, connection: sa.Connection) -> int:
        table, share = self._table, self._share
        if not sa.inspect(connection).has_table(table.name, schema=table.schema):
            connection.execute(CreateTable(table, if_not_exists=True))
        # the row lock decides a race: an `advance` of the previous owner is either seen here, or fails
        row = connection.execute(sa.select(table).where(self._mine).with_for_update()).first()
        if row is None:
            first = self._whose | {"epoch": share.epoch, "rows": 0, "share_rows": share.rows, "owner": self._owner}
            connection.execute(sa.insert(table).values(first))
            return 0
        published = ShareMarker(row.epoch, row.rows, row.share_rows).published(share)
        if row.epoch <= share.epoch:
            taken = {"epoch": share.epoch, "rows": published, "share_rows": share.rows, "owner": self._owner}
            connection.execute(sa.update(table).where(self._mine).values(taken))
        return published

    def is_at(self, connection: sa.Connection, rows: int) -> bool:
        """Whether this owner has published this number of rows."""
        columns = self._table.c
        there = sa.select(columns.rows).where(self._mine, columns.owner == self._owner, columns.rows == rows)
        return connection.execute(there).first() is not None

    def advance(self, connection: sa.Connection, before: int, after: int) -> None:
        """Records that `after` rows are visible instead of `before`, in the transaction that makes them visible. It is
        the last statement of that transaction, because it blocks a new owner. Raises ExternalError if there is a newer
        owner."""
        columns = self._table.c
        owned = sa.and_(self._mine, columns.owner == self._owner, columns.rows == before)
        moved = sa.update(self._table).where(owned).values(rows=after).returning(columns.rows)
        if connection.execute(moved).first() is None:
            raise ExternalError(
                f"{after - before} rows were not published: a newer publisher has taken over the share",
                remedy="nothing is to be done: that one goes on from where this one ended",
                retry=True,
            )


def _made_table(target: Target) -> sa.Table:
    return sa.Table(
        PUBLISHED_TABLE,
        sa.MetaData(),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("subtask", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("share_rows", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "sink", "subtask"),
        schema=target.schema,
    )
