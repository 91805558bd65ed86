"""Publishes a share of staged rows into a table, exactly once. It stores rows as the direct writer does, in
transactions of many rows that also record the progress (`share_progress`)."""

from __future__ import annotations

import uuid

import polars as pl
import sqlalchemy as sa

from headrace.connect.publisher import Share
from headrace.connect.sink import SinkContext
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.share_progress import ShareProgress
from headrace_connectors.sql.writing.direct_writer import DirectWriter
from headrace_connectors.sql.writing.row_buffer import with_keys


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
